"""Connections to a migrated database, without API or worker."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import psycopg
import pytest
import pytest_asyncio

from app.durable.enqueue import Legs
from app.services.context import Services
from app.store.audit import audit
from app.store.db import Database
from app.store.notify import Notifier
from tests.integration.store.stage import Stage
from tests.support.database import Cluster


@pytest.fixture(scope="package")
def shared_url(cluster: Cluster) -> Iterator[str]:
    """One database for all tests that look at nothing but their own runs."""
    url = cluster.clone()
    yield url
    cluster.drop(url)


@pytest_asyncio.fixture
async def stage(shared_url: str) -> AsyncIterator[Stage]:
    async with await psycopg.AsyncConnection.connect(shared_url, autocommit=True) as connection:
        yield Stage(connection)


@pytest_asyncio.fixture
async def audited(stage: Stage) -> AsyncIterator[None]:
    """What a test does breaks no rule of the audit that held before."""
    before = set(await audit(stage.connection))
    yield
    assert set(await audit(stage.connection)) <= before


@pytest_asyncio.fixture
async def audited_by_hand(stage: Stage) -> AsyncIterator[None]:
    """The same of runs whose legs nobody enqueues."""
    before = set(await audit(stage.connection))
    yield
    found = set(await audit(stage.connection)) - before
    assert {each for each in found if not each.endswith("its leg is not in the journal")} == set()


@pytest_asyncio.fixture
async def other(shared_url: str) -> AsyncIterator[Stage]:
    """The same database over a second connection."""
    async with await psycopg.AsyncConnection.connect(shared_url, autocommit=True) as connection:
        yield Stage(connection)


@pytest_asyncio.fixture
async def gate(shared_url: str) -> AsyncIterator[Stage]:
    """A third connection, which holds the row that two others wait for."""
    async with await psycopg.AsyncConnection.connect(shared_url, autocommit=True) as connection:
        yield Stage(connection)


@pytest_asyncio.fixture
async def services(shared_url: str) -> AsyncIterator[Services]:
    async with serving(shared_url, connections=2) as services:
        yield services


@pytest_asyncio.fixture
async def crowd(database_url: str) -> AsyncIterator[Services]:
    """With as many connections as there are requests at once."""
    async with serving(database_url, connections=20) as services:
        yield services


@asynccontextmanager
async def serving(url: str, connections: int) -> AsyncIterator[Services]:
    async with Database(url, size=connections, patience=30, lock_seconds=60) as database:
        legs = Legs(url)
        yield Services(database, legs, Notifier(database), queue_limit=100)
        legs.close()


@pytest_asyncio.fixture
async def alone(database_url: str) -> AsyncIterator[Stage]:
    """A database that no other test has touched."""
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        yield Stage(connection)
