"""Databases for the durable parts, and connections to look at them."""

from collections.abc import AsyncIterator, Iterator

import psycopg
import pytest
import pytest_asyncio

from app.services.context import Services
from app.store.db import Connection
from tests.integration.store.conftest import serving
from tests.integration.store.stage import Stage
from tests.support.database import Cluster


@pytest_asyncio.fixture
async def onlooker(database_url: str) -> AsyncIterator[Connection]:
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        yield connection


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
async def services(shared_url: str) -> AsyncIterator[Services]:
    async with serving(shared_url, connections=4) as services:
        yield services
