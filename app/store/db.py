"""Connections: an autocommit pool for transitions, an engine for transactions shared with DBOS."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, LiteralString, Self

import psycopg
from psycopg.errors import ReadOnlySqlTransaction
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool
from sqlalchemy import Engine, TextClause, create_engine, event, make_url, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import PoolResetState

Connection = psycopg.AsyncConnection[Any]
Row = dict[str, Any]

# A connection that is not made in time, or whose other side says nothing, has failed.
REACH: dict[str, Any] = {
    "connect_timeout": 3,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 8000,
}
LIKE_NEW = """
    set session authorization default; reset all; select pg_advisory_unlock_all();
    close all; unlisten *; discard temp; discard sequences
"""
SESSION = "-c timezone=UTC -c idle_in_transaction_session_timeout=15s -c lock_timeout={}s"


def sqlalchemy_url(url: str) -> str:
    """The same database for SQLAlchemy, which wants its driver named."""
    return "postgresql+psycopg://" + url.split("://", 1)[1]


def named(url: str, worker: str) -> str:
    """The same database, which is told whose the connections are."""
    # Postgres keeps 63 bytes; what tells two workers apart stands at the end.
    name = {"application_name": worker[-63:]}
    return make_url(url).update_query_dict(name).render_as_string(hide_password=False)


async def rows(connection: Connection, statement: LiteralString, **values: object) -> list[Row]:
    async with connection.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(statement, values)
        return await cursor.fetchall()


async def row(connection: Connection, statement: LiteralString, **values: object) -> Row | None:
    found = await rows(connection, statement, **values)
    return found[0] if found else None


async def call(connection: Connection, function: LiteralString, **values: object) -> Row:
    """One transition: a function of our schema with its parameters by name; its result as a row."""
    found = await row(connection, calling(function, values), **values)
    assert found is not None
    return found


def allow_idle(seconds: float) -> TextClause:
    """For this transaction; 0 takes the limit away."""
    setting = "select set_config('idle_in_transaction_session_timeout', :limit, true)"
    return text(setting).bindparams(limit=f"{int(seconds * 1000)}ms")


async def be_brief(connection: Connection, milliseconds: int = 50) -> None:
    """In this transaction no lock is waited for longer; what it was to do is tried again later."""
    await connection.execute(f"set local lock_timeout = {milliseconds}")


def calling(function: LiteralString, values: Mapping[str, object]) -> Any:  # noqa: ANN401 - a Query
    named = ", ".join(f"p_{name} => %({name})s" for name in values)
    return f"select * from perdure.{function}({named})"  # noqa: S608 - names of our own


async def verdict(connection: Connection, function: LiteralString, **values: object) -> str:
    """The same for a function that answers with one word."""
    return str((await call(connection, function, **values))[function])


def _make_like_new(connection: Any, _: object, state: PoolResetState) -> None:  # noqa: ANN401
    """In one round trip. A driver's own prepared statements stay."""
    if state.terminate_only:
        return
    connection.rollback()
    connection.autocommit = True
    connection.cursor().execute(LIKE_NEW)
    connection.autocommit = False


@dataclass(frozen=True)
class Transaction:
    """One transaction, seen through psycopg (ours) and through SQLAlchemy (DBOS's and tools')."""

    connection: Connection
    sqlalchemy: AsyncConnection


class Database:
    """One for each event loop. Connects when it is first used."""

    def __init__(
        self,
        url: str,
        *,
        size: int,
        patience: float,
        lock_seconds: int = 10,
        check: bool = False,
        lent: bool = False,
    ) -> None:
        """`size`: connections of each kind; `patience`: seconds to wait for one.
        `check`: looks at each before it is used, for those who do not send a statement again.
        `lent`: to code that is not ours. What it leaves on a connection ends with its transaction.
        """
        self.url = url
        self._left = False
        reach = {**REACH, "options": SESSION.format(lock_seconds)}
        # min_size 0 and a short reconnect_timeout: connections are made on demand, so an outage
        # leaves no growing back-off behind when the database returns.
        self._pool: AsyncConnectionPool[Connection] = AsyncConnectionPool(
            url,
            kwargs=reach | {"autocommit": True},
            check=self._check if check else None,
            min_size=0,
            max_size=size,
            timeout=patience,
            reconnect_timeout=0.5,
            open=False,
        )
        limits: dict[str, Any] = {"pool_size": size, "max_overflow": 0, "pool_timeout": patience}
        engine = limits | {"pool_pre_ping": True, "connect_args": reach}
        self.engine: AsyncEngine = create_async_engine(sqlalchemy_url(url), **engine)
        # For sync tools, which work in a thread. Connects when it is first used.
        self.sync_engine: Engine = create_engine(sqlalchemy_url(url), **engine)
        if lent:
            event.listen(self.engine.sync_engine, "reset", _make_like_new)
            event.listen(self.sync_engine, "reset", _make_like_new)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._left = True
        await self._pool.close()
        await self.engine.dispose()
        self.sync_engine.dispose()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Autocommit: each statement is a transaction of its own."""
        # Opened on first use, by the event loop that it then belongs to. Never after the end: its
        # tasks swallow a cancel, and would keep the loop from ending.
        if self._pool.closed and not self._left:
            await self._pool.open()
        async with self._pool.connection() as connection:
            try:
                yield connection
            except psycopg.Error as error:
                # A session made while the database was read-only would stay so for ever.
                if connection.broken or isinstance(error, ReadOnlySqlTransaction):
                    await self._renew()
                raise

    async def _check(self, connection: Connection) -> None:
        try:
            await AsyncConnectionPool.check_connection(connection)
        except psycopg.Error:
            await self._renew()
            raise

    async def _renew(self) -> None:
        """What befell one connection befell all: found out one by one, each would cost a pause."""
        await self._pool.drain()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        """Committed at the end of the block, rolled back by any exception."""
        async with self.engine.begin() as sqlalchemy:
            raw = await sqlalchemy.get_raw_connection()
            connection: Any = raw.driver_connection
            try:
                yield Transaction(connection, sqlalchemy)
            except ReadOnlySqlTransaction:
                await sqlalchemy.invalidate()
                raise
