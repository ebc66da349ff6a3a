"""SIGTERM at odd moments: nothing is lost, nothing counts, and the worker ends in time."""

import asyncio
import time

import pytest

from tests.acceptance.test_poison import ALONE, IN_WORKERS, isolated, replaced
from tests.support.client import Client
from tests.support.deployment import Deployment
from tests.support.polling import eventually, in_time
from tests.support.processes import Process
from tests.support.sabotage import awaited_row, held_commit, held_row, locked_table
from tests.support.sampling import FULL
from tests.support.scripts import say, use
from tests.support.world import World

pytestmark = pytest.mark.mended

GRACE = 2
ENDING_SECONDS = 4.0
SERVICE = {"PERDURE_GRACE_SECONDS": str(GRACE)}
STARTING = ["perdure.agent_versions", "perdure.workers"]
LETTING_GO = {"parks": "run.waiting", "settles": "run.succeeded"}


async def ended_in_time(leaving: asyncio.Task[int], began: float) -> None:
    assert await leaving == 0
    assert time.monotonic() - began < in_time(GRACE + ENDING_SECONDS)


async def told(worker: Process) -> None:
    async def probe() -> bool:
        return "hands over" in worker.text()

    await eventually(probe, "it was heard")


@pytest.mark.parametrize("table", STARTING if FULL else STARTING[1:])
async def test_a_worker_told_to_stop_before_it_has_its_lease_ends_at_once(
    client: Client, deployment: Deployment, table: str
) -> None:
    deployment.kill9()
    run = await client.submit(say("done"))
    with locked_table(deployment.database_url, table) as locked:
        worker = deployment.launch_worker()
        await locked.awaited()
        began = time.monotonic()
        await ended_in_time(asyncio.create_task(deployment.terminate(worker)), began)
    await deployment.start_worker()
    assert (await client.succeeded(run["id"]))["attempt"] == 1


async def test_a_janitor_told_to_stop_in_a_takeover_leaves_it_to_another(
    world: World, client: Client, deployment: Deployment
) -> None:
    gate = world.gate("pay:after")
    run = await client.submit(use("pay_idem", ref="left over"), say("paid"))
    await gate.reached()
    with held_row(deployment.database_url, "perdure.runs", "id", run["id"]):
        deployment.kill9()
        leaver = await deployment.start_worker()
        await awaited_row(deployment.database_url)
        began = time.monotonic()
        await ended_in_time(asyncio.create_task(deployment.terminate(leaver)), began)
        await deployment.start_worker()
    ended = await client.succeeded(run["id"], within=in_time(20))
    assert ended["attempt"] == 2
    assert await client.strandings(run["id"]) == []
    assert len(world.payments.rows_for("left over")) == 1
    assert len(world.payments.calls_for("left over")) == 2


@pytest.mark.parametrize("moment", LETTING_GO)
async def test_a_worker_told_to_stop_while_a_run_lets_go_of_it_lets_it_end_that(
    world: World, client: Client, deployment: Deployment, moment: str
) -> None:
    ref = f"stopped as it {moment}"
    step = use("refund" if moment == "parks" else "pay_idem", ref=ref)
    with held_commit(deployment.database_url, LETTING_GO[moment]) as commit:
        run = await client.submit(step, say("done"))
        await commit.reached()
        leaver, began = deployment.worker, time.monotonic()
        leaving = asyncio.create_task(deployment.terminate(leaver))
        await told(leaver)
        commit.release()
        await ended_in_time(leaving, began)
    await deployment.start_worker()
    if moment == "parks":
        await client.allow((await client.open_wait(run["id"]))["id"])
    ended = await client.succeeded(run["id"])
    assert (ended["attempt"], await client.strandings(run["id"])) == (1, [])
    assert "run.taken_over" not in await client.event_types(run["id"])
    assert len(world.payments.calls_for(ref)) == 1
    assert world.model.steps(ref) == [0, 1]


async def test_a_worker_told_to_stop_takes_its_isolated_process_along_and_that_is_no_loss(
    world: World, client: Client, deployment: Deployment
) -> None:
    third = world.gate("deadly:before", nth=IN_WORKERS + 1)
    async with replaced(deployment):
        # One death alone; were the stop one as well, that would bury the run.
        run = await client.submit(use("deadly", deaths=IN_WORKERS + ALONE - 1), say("alive"))
        await third.reached(in_time(30))
        alone, began = await isolated(client), time.monotonic()
    worker = deployment.worker
    assert alone != worker.pid
    leaving = asyncio.create_task(deployment.terminate(worker))
    await ended_in_time(leaving, began)
    await third.freed()
    await deployment.start_worker()
    await client.succeeded(run["id"], within=in_time(60))
    assert world.effects.count("deadly") == IN_WORKERS + ALONE
    assert len(await client.strandings(run["id"])) == 1
