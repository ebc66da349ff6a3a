"""Connections to a migrated database, without API or worker."""

from collections.abc import AsyncIterator, Iterator

import psycopg
import pytest
import pytest_asyncio

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
async def other(shared_url: str) -> AsyncIterator[Stage]:
    """The same database over a second connection."""
    async with await psycopg.AsyncConnection.connect(shared_url, autocommit=True) as connection:
        yield Stage(connection)


@pytest_asyncio.fixture
async def alone(database_url: str) -> AsyncIterator[Stage]:
    """A database that no other test has touched."""
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        yield Stage(connection)
