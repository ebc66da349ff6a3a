"""Connections that are made when they are needed, and none after the end."""

import psycopg
import pytest

from app.store.db import Database, row
from app.store.notify import Notifier


@pytest.mark.parametrize("used", [False, True])
async def test_nothing_connects_once_the_database_has_been_left(
    shared_url: str, used: bool
) -> None:
    async with Database(shared_url, size=1, patience=5) as database:
        if used:
            async with database.connection() as connection:
                assert await row(connection, "select 1 as one") == {"one": 1}

    with pytest.raises(psycopg.OperationalError):
        async with database.connection():
            pass


async def test_news_that_nobody_can_be_told_any_more_are_dropped(shared_url: str) -> None:
    async with Database(shared_url, size=1, patience=5) as database:
        notifier = Notifier(database)
        notifier.tell("run_1")

    assert notifier._task is not None
    await notifier._task
