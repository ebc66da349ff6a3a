"""DBOS's engine waits for a database that is away, or full, and for nothing else."""

import asyncio
from collections.abc import Iterator
from threading import Event

import psycopg
import pytest
import sqlalchemy
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from app.durable import engine as engines
from tests.support.processes import free_port

INSERT = text("insert into public.notes (run, text) values (:run, 'x')")
FULL = """
    create function public.no_room() returns trigger language plpgsql as $$
    begin raise exception 'no room' using errcode = 'disk_full'; end $$;
    create trigger no_room before insert on public.notes
        for each row execute function public.no_room()
"""


@pytest.fixture
def leaving() -> Event:
    return Event()


@pytest.fixture
def engine(database_url: str, leaving: Event) -> Iterator[sqlalchemy.Engine]:
    engine = engines.make(database_url, leaving.is_set)
    yield engine
    engine.dispose()


def insert(engine: sqlalchemy.Engine) -> None:
    with engine.begin() as connection:
        connection.execute(INSERT, {"run": "r"})


async def test_a_full_disk_is_waited_for_after_one_error(
    engine: sqlalchemy.Engine, database_url: str
) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(FULL)
        with pytest.raises(DBAPIError) as refused:
            insert(engine)
        assert refused.value.connection_invalidated
        waiting = asyncio.ensure_future(asyncio.to_thread(insert, engine))
        done, _ = await asyncio.wait({waiting}, timeout=1.0)
        assert not done
        connection.execute("drop function public.no_room cascade")
        await asyncio.wait_for(waiting, 5)
        (count,) = connection.execute("select count(*) from public.notes").fetchone() or (None,)
        assert count == 1


async def test_what_was_refused_for_another_reason_is_not_waited_for(
    engine: sqlalchemy.Engine,
) -> None:
    with pytest.raises(DBAPIError) as refused, engine.begin() as connection:
        connection.execute(text("insert into public.notes (run) values ('r')"))
    assert not refused.value.connection_invalidated
    insert(engine)


async def test_a_database_that_only_reads_is_waited_for(
    engine: sqlalchemy.Engine, database_url: str
) -> None:
    name = database_url.rpartition("/")[2].partition("?")[0]
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(f"alter database {name} set default_transaction_read_only = on".encode())
        waiting = asyncio.ensure_future(asyncio.to_thread(insert, engine))
        done, _ = await asyncio.wait({waiting}, timeout=1.0)
        assert not done
        connection.execute("set default_transaction_read_only = off")
        connection.execute(f"alter database {name} reset default_transaction_read_only".encode())
        await asyncio.wait_for(waiting, 5)


async def test_a_process_that_leaves_waits_no_longer(leaving: Event) -> None:
    engine = engines.make(f"postgresql://nobody@127.0.0.1:{free_port()}/none", leaving.is_set)
    waiting = asyncio.ensure_future(asyncio.to_thread(insert, engine))
    done, _ = await asyncio.wait({waiting}, timeout=1.0)
    assert not done
    leaving.set()
    with pytest.raises(engines.Leaving):
        await asyncio.wait_for(waiting, 5)
