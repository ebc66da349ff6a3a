"""The application over a real database, without a worker: runs stand still."""

from collections.abc import AsyncIterator

import httpx
import pytest_asyncio

from app.delivery.hub import Hub
from app.durable.enqueue import Legs
from app.http.application import build
from app.http.parts import Parts
from app.services.context import Services
from app.store.db import Database
from app.store.notify import Notifier
from tests.integration.http.rows import Rows
from tests.integration.http.serving import Served, serving

BASE_URL = "http://127.0.0.1:8000"


@pytest_asyncio.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    async with Database(database_url, size=4, patience=5) as database:
        yield database


@pytest_asyncio.fixture
async def services(database: Database) -> AsyncIterator[Services]:
    legs = Legs(database.url)
    yield Services(database, legs, Notifier(database), queue_limit=100)
    legs.close()


@pytest_asyncio.fixture
async def http(services: Services) -> AsyncIterator[httpx.AsyncClient]:
    app = build(Parts(services, Hub(services.database), lambda: True), key=None)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url=BASE_URL) as client:
        yield client


@pytest_asyncio.fixture
async def served(services: Services) -> AsyncIterator[Served]:
    async with serving(services, Hub(services.database)) as served:
        yield served


@pytest_asyncio.fixture
async def rows(database_url: str) -> AsyncIterator[Rows]:
    async with await Rows.connect(database_url) as rows:
        yield rows
