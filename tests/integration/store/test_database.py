"""Connections that are made when they are needed, and none after the end."""

import time
from contextlib import AsyncExitStack, suppress

import psycopg
import pytest
from psycopg import sql
from psycopg.errors import ReadOnlySqlTransaction
from sqlalchemy import text

from app.store import workers
from app.store.db import Database, Row, named, row
from app.store.notify import Notifier
from tests.support.polling import in_time
from tests.support.server import end_sessions


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


@pytest.mark.parametrize("check", [True, False])
async def test_one_look_finds_that_all_connections_are_gone(database_url: str, check: bool) -> None:
    async with Database(database_url, size=8, patience=3, check=check) as database:
        async with AsyncExitStack() as at_once:
            for _ in range(8):
                await at_once.enter_async_context(database.connection())
        assert end_sessions(database_url) == 8

        begun = time.monotonic()
        if not check:
            with pytest.raises(psycopg.OperationalError):
                await answer(database)
        for _ in range(8):
            assert await answer(database) == {"one": 1}
        assert time.monotonic() - begun < in_time(1.0)


async def test_a_connection_made_while_the_database_was_read_only_is_not_kept(
    database_url: str,
) -> None:
    def alter(setting: str) -> None:
        options = "-c default_transaction_read_only=off"
        with psycopg.connect(database_url, autocommit=True, options=options) as connection:
            name = sql.Identifier(connection.info.dbname)
            statement = sql.SQL("alter database {} {} default_transaction_read_only").format(
                name, sql.SQL(setting)
            )
            connection.execute(statement + sql.SQL(" = on" if setting == "set" else ""))

    async with Database(database_url, size=1, patience=3) as database:
        alter("set")
        for act in (note, note_in_transaction):
            with pytest.raises(ReadOnlySqlTransaction):
                await act(database)
        alter("reset")
        for act in (note, note_in_transaction):
            with suppress(ReadOnlySqlTransaction):  # by a session of that time, at the latest
                await act(database)
            await act(database)


async def answer(database: Database) -> Row | None:
    async with database.connection() as connection:
        return await row(connection, "select 1 as one")


async def note(database: Database) -> None:
    async with database.connection() as connection:
        await connection.execute("insert into public.notes values ('r', 'x')")


async def note_in_transaction(database: Database) -> None:
    async with database.transaction() as transaction:
        await transaction.connection.execute("insert into public.notes values ('r', 'x')")


async def test_what_a_worker_has_open_is_ended_and_nothing_of_its_neighbours(
    shared_url: str,
) -> None:
    """However long the name of their host is."""
    ids = [f"{'box' * 30}-1-{suffix}" for suffix in ("aaaaaaaa", "bbbbbbbb")]
    one, other = [Database(named(shared_url, each), size=1, patience=5) for each in ids]
    async with one, other, one.connection() as first, other.connection() as second:
        async with await psycopg.AsyncConnection.connect(shared_url) as onlooker:
            await workers.hang_up(onlooker, ids[0])

        assert await row(second, "select 1 as one") == {"one": 1}
        with pytest.raises(psycopg.errors.AdminShutdown):
            await row(first, "select 1 as one")


LEFT = (
    "set search_path = pg_catalog",
    "set statement_timeout = '7s'",
    "set session characteristics as transaction read only",
    "select pg_advisory_lock(4711)",
    "create temp table left_behind (n int)",
    "set role pg_monitor",
)
# Everything that the next one who has the connection could notice.
FOUND = text(
    """select pg_backend_pid(), current_user, current_setting('search_path'),
           current_setting('statement_timeout'), current_setting('transaction_read_only'),
           current_setting('timezone'), to_regclass('pg_temp.left_behind'),
           (select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid())"""
)


async def test_what_was_left_on_a_lent_connection_is_gone(shared_url: str) -> None:
    async with Database(shared_url, size=1, patience=5, lent=True) as database:
        for fails in (False, True):
            async with database.transaction() as lent:
                before = tuple((await lent.sqlalchemy.execute(FOUND)).one())
            with suppress(AssertionError):
                async with database.transaction() as lent:
                    for statement in LEFT:
                        await lent.sqlalchemy.execute(text(statement))
                    assert not fails
            async with database.transaction() as lent:
                assert tuple((await lent.sqlalchemy.execute(FOUND)).one()) == before


async def test_the_same_is_so_for_those_who_work_in_threads(shared_url: str) -> None:
    async with Database(shared_url, size=1, patience=5, lent=True) as database:
        for fails in (False, True):
            with database.sync_engine.begin() as lent:
                before = tuple(lent.execute(FOUND).one())
            with suppress(AssertionError), database.sync_engine.begin() as lent:
                for statement in LEFT:
                    lent.execute(text(statement))
                assert not fails
            with database.sync_engine.begin() as lent:
                assert tuple(lent.execute(FOUND).one()) == before
