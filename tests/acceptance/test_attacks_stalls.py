"""A database that stops answering and comes back: healthy workers survive it."""

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from tests.support.client import Client
from tests.support.deployment import Deployment
from tests.support.sampling import FULL
from tests.support.scripts import say, use
from tests.support.world import World


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds Postgres through /proc")
@pytest.mark.parametrize("seconds", [8, 14] if FULL else [14])
async def test_a_stalled_database_costs_no_worker_and_no_outcome(
    world: World, client: Client, deployment: Deployment, seconds: int
) -> None:
    await deployment.start_worker()
    gate = world.gate("pay:before")
    run = await client.submit(use("pay_once", ref="stall"), say("paid"))
    await gate.reached()
    with stalled(deployment.database_url):
        await asyncio.sleep(seconds)
    await asyncio.sleep(4)
    assert [worker.exit_code for worker in deployment.workers] == [None, None]
    gate.open()
    await client.succeeded(run["id"])
    assert (await client.call(run["id"]))["state"] == "succeeded"
    assert len(world.payments.calls) == 1


@contextmanager
def stalled(database_url: str) -> Iterator[None]:
    """No process of the server does anything; its sockets stay open."""
    processes = _server(database_url)
    for process in processes:
        os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGCONT)


def _server(database_url: str) -> list[int]:
    """The postmaster, then its children."""
    with psycopg.connect(database_url) as connection:
        postmaster = _parent(connection.info.backend_pid)
    everyone = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    return [postmaster, *(pid for pid in everyone if _parent(pid) == postmaster)]


def _parent(pid: int) -> int:
    with suppress(FileNotFoundError, ProcessLookupError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0
