"""Whom the elected worker takes for dead."""

from collections.abc import AsyncIterator
from math import inf

import pytest_asyncio

from app.durable.enqueue import Legs
from app.durable.janitor import Janitor
from app.store import workers
from app.store.db import Connection, Database
from tests.integration.durable.leases import keeping, lease_of

OTHER, LOCK = "elsewhere-7-b", 1_000_000
# Whether its process lives cannot be seen from here.
ELSEWHERE = {
    "host": "elsewhere",
    "pid": 7,
    "boot_id": "another",
    "pid_namespace": "another",
    "process_started": "1",
}


@pytest_asyncio.fixture
async def janitor(database_url: str, onlooker: Connection) -> AsyncIterator[Janitor]:
    """One that was elected long ago, and another worker whose lease is gone."""
    lease = lease_of(database_url, seconds=10)
    async with keeping(lease), Database(database_url, size=2, patience=5) as database:
        await workers.insert(onlooker, OTHER, LOCK, "1", ["desk"], ELSEWHERE)
        janitor = Janitor(lease, database, Legs(database_url))
        janitor.grace, janitor.reconnected = 0.0, -inf
        yield janitor


async def is_dead(onlooker: Connection) -> bool:
    found = await workers.find(onlooker, OTHER)
    assert found is not None
    return found["death"] is not None


async def test_a_lease_that_is_gone_in_two_looks_is_a_death(
    janitor: Janitor, onlooker: Connection
) -> None:
    await janitor.look()
    assert not await is_dead(onlooker)
    await janitor.look()
    assert await is_dead(onlooker)


async def test_a_lease_that_is_back_at_the_next_look_is_none(
    janitor: Janitor, onlooker: Connection
) -> None:
    await janitor.look()
    assert await workers.try_lock(onlooker, workers.LEASE, LOCK)
    await janitor.look()
    await onlooker.execute("select pg_advisory_unlock_all()")
    await janitor.look()
    assert not await is_dead(onlooker)


async def test_a_janitor_whose_own_lease_is_cut_meanwhile_buries_nobody(
    janitor: Janitor, onlooker: Connection
) -> None:
    await janitor.look()
    assert janitor.elected_on is not None
    backend = janitor.elected_on.info.backend_pid
    await onlooker.execute("select pg_terminate_backend(%s, 5000)", [backend])
    await janitor.look()
    assert not await is_dead(onlooker)
