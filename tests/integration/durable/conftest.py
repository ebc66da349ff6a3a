"""A database for the durable parts, and connections to look at it."""

from collections.abc import AsyncIterator

import psycopg
import pytest_asyncio

from app.store.db import Connection


@pytest_asyncio.fixture
async def onlooker(database_url: str) -> AsyncIterator[Connection]:
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        yield connection
