"""A worker whose clock is wrong: facts have the database's time."""

import json
import os
import time
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path

import pytest
import pytest_asyncio

from tests.acceptance.conftest import deployed
from tests.support.client import Client
from tests.support.database import Cluster, live_worker_pids
from tests.support.deployment import Deployment
from tests.support.polling import in_time
from tests.support.processes import Process
from tests.support.scripts import Step, by_attempt, refuse, say, use
from tests.support.world import World

LEASE_SECONDS = 3
PAUSES = Path(__file__).parents[1] / "support" / "pauses"
SKEWED = {"minus": "-10m", "plus": "+10m"}


def wrong_clock(by: str) -> dict[str, str]:
    """The environment of a process whose clock is wrong; durations stay right."""
    found = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
    if not found:
        assert os.environ.get("CI") != "true", "libfaketime is not installed"
        pytest.skip("libfaketime is not installed here: apt-get install libfaketime")
    return {
        "LD_PRELOAD": str(found[0]),
        "FAKETIME": by,
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "PYTHONPATH": os.pathsep.join([str(PAUSES), os.environ.get("PYTHONPATH", "")]),
    }


@pytest_asyncio.fixture(params=list(SKEWED))
async def deployment(
    cluster: Cluster, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[Deployment]:
    """One worker with the right time and one with the wrong."""
    clock = wrong_clock(SKEWED[request.param])
    lease = {"PERDURE_LEASE_SECONDS": str(LEASE_SECONDS)}
    async with deployed(cluster, tmp_path, workers=0, **lease) as deployment:
        await deployment.start_worker(**clock)
        yield deployment


@pytest.mark.case("B74")
async def test_a_wrong_clock_moves_no_deadline_and_costs_no_worker_its_runs(
    world: World, client: Client, deployment: Deployment
) -> None:
    held = world.gate("pay:before")
    paying = await client.submit(use("pay_once", ref="b74"), say("paid"))
    await held.reached()

    assert minutes_off(deployment.worker) >= 9
    # The only worker has the wrong time, and sweeps.
    await on_time(client, [use("sleep_for", seconds=1), say("awake")], at_least=1.0)
    await on_time(client, [by_attempt(refuse(429, retry_after=1), say("heard"))], at_least=1.0)
    run = await client.submit(use("refund_soon", ref="late"), say("too late"))
    began = time.monotonic()
    await client.succeeded(run["id"])
    assert 0.5 <= time.monotonic() - began <= in_time(5.0)
    assert (await client.call(run["id"]))["state"] == "expired"

    # Now another with the right time judges it, and is judged.
    await deployment.start_worker()
    before = live_worker_pids(deployment.database_url)
    for _ in range(2):
        await on_time(client, [use("sleep_for", seconds=1), say("awake")], at_least=1.0)
    assert live_worker_pids(deployment.database_url) == before
    assert len(before) == 2
    held.open()
    await client.succeeded(paying["id"])
    assert "run.taken_over" not in await client.event_types(paying["id"])
    assert len(world.payments.calls) == 1


def minutes_off(worker: Process) -> float:
    """How wrong the time is under which a worker has logged."""
    said = datetime.fromisoformat(json.loads(worker.tail(1))["at"])
    return abs(said.timestamp() - worker.log.stat().st_mtime) / 60


async def on_time(client: Client, steps: list[Step], at_least: float) -> None:
    began = time.monotonic()
    run = await client.submit(*steps)
    await client.succeeded(run["id"])
    assert at_least <= time.monotonic() - began <= in_time(at_least + 4.0)
