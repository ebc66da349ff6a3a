"""A write is sent again for as long as the database is away, and only then."""

from collections.abc import AsyncIterator, Callable

import psycopg
import pytest
import pytest_asyncio
import sqlalchemy
from psycopg import errors
from psycopg.errors import LockNotAvailable

from app.durable import execution
from app.durable.execution import insist
from app.store.db import Database, row

PASSING: list[Callable[[], Exception]] = [
    lambda: psycopg.OperationalError("server closed the connection unexpectedly"),
    lambda: errors.AdminShutdown("terminating connection due to administrator command"),
    lambda: errors.CannotConnectNow("the database system is starting up"),
    lambda: errors.DeadlockDetected("deadlock detected"),
    lambda: errors.LockNotAvailable("canceling statement due to lock timeout"),
    lambda: errors.ReadOnlySqlTransaction("cannot execute UPDATE in a read-only transaction"),
    lambda: psycopg.InterfaceError("the connection is closed"),
    lambda: sqlalchemy.exc.OperationalError("x", None, psycopg.OperationalError("y")),
    lambda: sqlalchemy.exc.TimeoutError("QueuePool limit"),
    lambda: TimeoutError(),
    lambda: ConnectionResetError(),
]
LASTING: list[Callable[[], Exception]] = [
    lambda: errors.UniqueViolation("duplicate key"),
    lambda: errors.CheckViolation("violates check constraint"),
    lambda: errors.DataError("invalid input"),
    lambda: errors.UndefinedFunction("no such function"),
    lambda: sqlalchemy.exc.IntegrityError("x", None, errors.UniqueViolation("y")),
    lambda: ValueError("a fault of our own"),
]


def named(made: Callable[[], Exception]) -> str:
    return type(made()).__name__


@pytest_asyncio.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    async with Database(database_url, size=2, patience=5) as database:
        yield database


@pytest.mark.parametrize("made", PASSING, ids=named)
async def test_what_passes_is_waited_out(made: Callable[[], Exception]) -> None:
    tries: list[str] = []

    async def once() -> str:
        tries.append("try")
        if len(tries) < 3:
            raise made()
        return "done"

    assert await insist(once) == "done"
    assert len(tries) == 3


@pytest.mark.parametrize(("each", "times"), [(0.0, 4), (1000.0, 1)])
async def test_what_lasts_is_told_at_once_and_then_now_and_again(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, each: float, times: int
) -> None:
    monkeypatch.setattr(execution, "TOLD_EACH", each)
    tries = iter([LockNotAvailable("held")] * 4)

    async def once() -> None:
        for error in tries:
            raise error

    await insist(once)

    assert len(caplog.records) == times


@pytest.mark.parametrize("made", LASTING, ids=named)
async def test_what_does_not_pass_is_raised_at_once(made: Callable[[], Exception]) -> None:
    tries: list[str] = []

    async def once() -> None:
        tries.append("try")
        raise made()

    with pytest.raises(type(made())):
        await insist(once)
    assert len(tries) == 1


async def test_a_connection_that_the_server_ends_is_replaced(database: Database) -> None:
    tries: list[int] = []

    async def once() -> int:
        async with database.connection() as connection:
            found = await row(connection, "select pg_backend_pid() as pid")
            assert found is not None
            tries.append(found["pid"])
            if len(tries) == 1:
                await row(connection, "select pg_terminate_backend(pg_backend_pid())")
            return int(found["pid"])

    assert await insist(once) == tries[1] != tries[0]


async def test_a_transaction_is_tried_again_as_a_whole(database: Database) -> None:
    tries: list[str] = []

    async def once() -> None:
        async with database.transaction() as transaction:
            tries.append("try")
            await row(
                transaction.connection,
                "insert into perdure.sessions (id) values ('s') returning id",
            )
            if len(tries) == 1:
                await row(transaction.connection, "select pg_terminate_backend(pg_backend_pid())")

    await insist(once)

    async with database.connection() as connection:
        found = await row(connection, "select count(*) as made from perdure.sessions")
    assert found == {"made": 1}
    assert len(tries) == 2
