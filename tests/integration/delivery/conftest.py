"""A courier over a real database, a receiver, and runs that are moved by hand."""

from collections.abc import AsyncIterator, Callable, Iterator

import psycopg
import pytest
import pytest_asyncio

from app.delivery.post import Poster
from app.delivery.webhooks import Courier
from app.services.webhooks import compose
from app.settings import load
from tests.integration.store.stage import Stage
from tests.support.environment import WEBHOOK_SECRET
from tests.support.receiver import Receiver

StartCourier = Callable[..., Courier]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    receiver.start()
    yield receiver
    receiver.stop()


@pytest_asyncio.fixture
async def stage(database_url: str) -> AsyncIterator[Stage]:
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        yield Stage(connection)


@pytest.fixture
def start(database_url: str) -> Iterator[StartCourier]:
    """Starts couriers, as many as are asked for; they end with the test."""
    couriers: list[Courier] = []

    def start(secret: str = WEBHOOK_SECRET, *, allow_private: bool = True) -> Courier:
        settings = load({"PERDURE_DATABASE_URL": database_url, "PERDURE_WEBHOOK_SECRET": secret})
        poster = Poster(allow_private=allow_private)
        courier = Courier(database_url, settings.webhook_keys, poster, compose)
        courier.start()
        couriers.append(courier)
        return courier

    yield start
    for courier in couriers:
        courier.end()
