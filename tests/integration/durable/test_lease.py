"""The lease: proof of life that Postgres itself ends."""

import asyncio
import os
import socket
import time
from typing import Any

import psycopg
import pytest

from app.durable.lease import GivenUp, Lease
from app.store import workers
from app.store.db import Connection, row, rows
from tests.integration.durable.leases import SECONDS, WORKER, is_held, keeping, lease_of
from tests.support.polling import eventually


async def lock_of(onlooker: Connection) -> int:
    found = await row(onlooker, "select lock from perdure.workers where id = %(id)s", id=WORKER)
    assert found is not None
    return int(found["lock"])


async def holder(onlooker: Connection) -> int | None:
    """The backend that holds the worker's lock."""
    found = await row(
        onlooker,
        """select pid from pg_locks where locktype = 'advisory' and classid = %(space)s
           and objid = %(lock)s and granted
           and database = (select oid from pg_database where datname = current_database())""",
        space=workers.LEASE,
        lock=await lock_of(onlooker),
    )
    return None if found is None else int(found["pid"])


async def is_free(onlooker: Connection) -> bool:
    return await holder(onlooker) is None


async def test_the_lock_is_taken_before_the_row_is_written(
    database_url: str, onlooker: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row without its lock is a dead worker's, so there must be none for a moment either."""
    insert, held = workers.insert, []

    async def watched(
        connection: Connection, worker: str, lock: int, *rest: Any, isolated: bool
    ) -> None:
        held.extend(await rows(onlooker, "select lock from perdure.leases() lock"))
        assert await workers.find(onlooker, worker) is None
        await insert(connection, worker, lock, *rest, isolated=isolated)

    monkeypatch.setattr("app.durable.lease.workers.insert", watched)
    async with keeping(lease_of(database_url)):
        assert held == [{"lock": await lock_of(onlooker)}]
        assert await workers.without_lease(onlooker) == []


async def test_a_lock_that_is_still_held_is_not_drawn_twice(
    database_url: str, onlooker: Connection
) -> None:
    await workers.try_lock(onlooker, workers.LEASE, 1)

    async with keeping(lease_of(database_url)):
        assert await lock_of(onlooker) == 2


async def test_the_lock_is_free_as_soon_as_the_connection_is_dead(
    database_url: str, onlooker: Connection
) -> None:
    lease = lease_of(database_url, seconds=10)
    async with keeping(lease):
        assert lease.connection is not None
        assert not await is_free(onlooker)
        # As a killed process leaves it: the socket ends, and nobody says good-bye.
        with socket.socket(fileno=os.dup(lease.connection.fileno())) as ending:
            ending.shutdown(socket.SHUT_RDWR)

        await eventually(lambda: is_free(onlooker), "the lock is free", within=1.0)

    assert [each["id"] for each in await workers.without_lease(onlooker)] == [WORKER]


async def test_a_worker_that_does_not_beat_loses_its_lock(
    database_url: str, onlooker: Connection
) -> None:
    lease = lease_of(database_url)
    await lease._acquire()
    assert not await is_free(onlooker)

    await eventually(lambda: is_free(onlooker), "the lock is free", within=3 * SECONDS)

    await lease._disconnect()


async def test_a_beating_worker_keeps_its_lock_for_longer_than_the_lease(
    database_url: str, onlooker: Connection
) -> None:
    async with keeping(lease_of(database_url)):
        pid = await holder(onlooker)
        await asyncio.sleep(2 * SECONDS)  # nothing must happen: there is nothing to wait for

        assert await holder(onlooker) == pid is not None


async def test_a_lost_lock_is_taken_again_under_the_same_id(
    database_url: str, onlooker: Connection
) -> None:
    lease = lease_of(database_url)
    async with keeping(lease):
        lock, first = await lock_of(onlooker), await holder(onlooker)
        await onlooker.execute("select pg_terminate_backend(%s)", [first])

        async def taken_again() -> bool:
            return await holder(onlooker) not in (None, first)

        await eventually(taken_again, "the lock is held again")
        assert await lock_of(onlooker) == lock
        assert lease.connections == 2
        assert await workers.without_lease(onlooker) == []


async def test_a_worker_that_cannot_prove_that_it_lives_begins_nothing(
    database_url: str, onlooker: Connection
) -> None:
    lease = lease_of(database_url)
    async with (
        keeping(lease) as task,
        await psycopg.AsyncConnection.connect(database_url, autocommit=True) as rival,
    ):
        lock, first = await lock_of(onlooker), await holder(onlooker)
        taking = asyncio.ensure_future(
            rival.execute("select pg_advisory_lock(%s, %s)", [workers.LEASE, lock])
        )
        await onlooker.execute("select pg_terminate_backend(%s)", [first])
        await taking

        await eventually(lambda: _is_lost(lease), "the lease is lost")
        await rival.execute("select pg_advisory_unlock_all()")
        await eventually(lambda: is_held(lease), "the lease is held again")
        assert not task.done()


async def _is_lost(lease: Lease) -> bool:
    return not lease.proof.holds()


async def test_a_worker_that_was_frozen_may_begin_nothing_before_its_next_beat(
    database_url: str,
) -> None:
    lease = lease_of(database_url)
    async with keeping(lease):
        time.sleep(SECONDS)  # noqa: ASYNC251 - nothing in this process goes on meanwhile
        assert not lease.proof.holds()
        await eventually(lambda: is_held(lease), "the lease is held again")


@pytest.mark.parametrize("cut", [False, True])
async def test_a_worker_that_was_given_up_finds_out(
    database_url: str, onlooker: Connection, cut: bool
) -> None:
    async with keeping(lease_of(database_url)) as task:
        await workers.give_up(onlooker, WORKER, "lease_lost")
        if cut:
            await onlooker.execute("select pg_terminate_backend(%s)", [await holder(onlooker)])

        with pytest.raises(GivenUp):
            await asyncio.wait_for(task, 10)


async def test_a_dead_workers_beat_changes_nothing(database_url: str, onlooker: Connection) -> None:
    async with keeping(lease_of(database_url, seconds=10)):
        await workers.give_up(onlooker, WORKER, "proved")
        before = await workers.find(onlooker, WORKER)

        assert not await workers.beat(onlooker, WORKER)
        await workers.give_up(onlooker, WORKER, "exited")
        assert await workers.find(onlooker, WORKER) == before
