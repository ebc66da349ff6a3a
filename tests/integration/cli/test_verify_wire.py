"""The proxy before Postgres, with a real client and a real server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import psycopg
import pytest

from app.cli.verify.evidence import Evidence
from app.cli.verify.statements import Reader, Runs
from app.cli.verify.trap import Fault, Side, Target, Trap, Window
from app.cli.verify.wire import WireProxy

MAYBE = """
    create function public.maybe(boolean) returns void language sql as
    $$ insert into public.notes select 'r', 'a' where $1 $$
"""
INSERT = "insert into public.notes (run, text) values (%s, %s)"


@dataclass
class Blows:
    """Stands for the worker's end: counts how often the trap was sprung."""

    struck: asyncio.Event = field(default_factory=asyncio.Event)


@asynccontextmanager
async def proxied(
    database_url: str, side: Side | None = None, fault: Fault = "cut", name: str = ""
) -> AsyncIterator[tuple[WireProxy, Trap, Blows]]:
    blows = Blows()
    target = None
    if side is not None:
        target = Target(Window("commit", "worker", name, 1), side, fault)
    trap = Trap(target, blows.struck.set)
    proxy = WireProxy(database_url, Reader(frozenset(), Runs()), trap, "worker")
    await proxy.start()
    try:
        yield proxy, trap, blows
    finally:
        await proxy.stop()


async def count_notes(url: str) -> int:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        found = await (await connection.execute("select count(*) from public.notes")).fetchone()
    assert found is not None
    return int(found[0])


async def write(url: str, *, autocommit: bool) -> None:
    async with await psycopg.AsyncConnection.connect(url, autocommit=autocommit) as connection:
        await connection.execute(INSERT, ["r", "a"])


@pytest.mark.parametrize("autocommit", [True, False])
async def test_a_commit_is_a_window_and_a_read_is_none(database_url: str, autocommit: bool) -> None:
    async with proxied(database_url) as (proxy, trap, _):
        await write(proxy.url, autocommit=autocommit)
        assert await count_notes(proxy.url) == 1
    assert [str(window) for window in trap.windows] == ["insert public.notes"]


async def test_many_writes_over_one_connection_are_numbered(database_url: str) -> None:
    async with (
        proxied(database_url) as (proxy, trap, _),
        await psycopg.AsyncConnection.connect(proxy.url, autocommit=True) as connection,
    ):
        for _ in range(8):  # after a few the driver prepares the statement
            await connection.execute(INSERT, ["r", "a"])
    assert [window.occurrence for window in trap.windows] == [1, 2, 3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize(("side", "rows"), [("before", 0), ("after", 1)])
@pytest.mark.parametrize("autocommit", [True, False])
async def test_a_client_is_cut_off_on_either_side_of_its_commit(
    database_url: str, side: Side, rows: int, autocommit: bool
) -> None:
    async with proxied(database_url, side, name="insert public.notes") as (proxy, trap, blows):
        with pytest.raises(psycopg.OperationalError):
            await write(proxy.url, autocommit=autocommit)
        assert blows.struck.is_set()
        assert trap.is_sprung
        assert await count_notes(database_url) == rows


async def test_a_function_that_found_nothing_to_do_is_no_window(database_url: str) -> None:
    async with await psycopg.AsyncConnection.connect(database_url) as connection:
        await connection.execute(MAYBE)
    trap = Trap(None, lambda: None)
    reader = Reader(frozenset({"public.maybe"}), Runs())
    proxy = WireProxy(database_url, reader, trap, "worker", Evidence(database_url))
    await proxy.start()
    async with await psycopg.AsyncConnection.connect(proxy.url, autocommit=True) as connection:
        for does_it in (False, True, False):
            await connection.execute("select public.maybe(%s)", [does_it])
    await proxy.stop()

    assert [str(window) for window in trap.windows] == ["maybe #2"]


async def test_once_sprung_it_lets_everything_pass(database_url: str) -> None:
    async with proxied(database_url, "before", name="insert public.notes") as (proxy, _, _):
        with pytest.raises(psycopg.OperationalError):
            await write(proxy.url, autocommit=True)
        await write(proxy.url, autocommit=True)
    assert await count_notes(database_url) == 1
