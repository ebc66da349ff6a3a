"""Who goes on with the runs of a worker that is gone, and who is left in peace."""

import asyncio
import time

import pytest

from app import Agent, ToolContext, tool
from tests.support.client import Client
from tests.support.deployment import Deployment
from tests.support.environment import AGENTS
from tests.support.outside import Reply, effect
from tests.support.polling import eventually, in_time
from tests.support.sampling import FULL
from tests.support.scripts import say, use
from tests.support.world import World

pytestmark = pytest.mark.mended

LEASE = 3
SERVICE = {"PERDURE_AGENTS": f"{AGENTS},{__name__}", "PERDURE_LEASE_SECONDS": str(LEASE)}
PARKED = 50 if FULL else 20


@tool(replay="read_only", timeout=60)
async def block(ctx: ToolContext, seconds: float) -> Reply:
    """Hold up the worker's event loop, as no tool should."""
    await effect("block", ctx)
    time.sleep(seconds)  # noqa: ASYNC251
    return {}


blocker = Agent(name="blocker", model="claude-sonnet-5", instructions="Stay.", tools=[block])


@pytest.mark.case("B01")
async def test_a_worker_that_is_long_at_it_and_blocks_its_loop_keeps_its_runs(
    world: World, client: Client, deployment: Deployment
) -> None:
    gate, blocked = world.gate("pay:before"), world.gate("block:after")
    paying = await client.submit(use("pay_once", ref="long"), say("paid"))
    await gate.reached()
    seconds = 3.0 * LEASE
    blocking = await client.submit(use("block", seconds=seconds), say("done"), agent="blocker")
    await blocked.reached()
    await deployment.start_worker()
    blocked.open()
    await client.succeeded(blocking["id"], within=40)
    gate.open()
    await client.succeeded(paying["id"])
    assert len(world.payments.calls_for("long")) == 1
    assert world.model.steps("long") == [0, 1]
    for run in (paying["id"], blocking["id"]):
        types = await client.event_types(run)
        assert (types.count("run.taken_over"), types.count("run.succeeded")) == (0, 1)
        assert (await client.call(run))["attempts"] == 1


@pytest.mark.case("A22")
@pytest.mark.parametrize("workers", [2, 3])
async def test_another_worker_ends_the_run_of_one_that_was_killed(
    world: World, client: Client, deployment: Deployment, workers: int
) -> None:
    for _ in range(workers - 1):
        await deployment.start_worker()
    gate = world.gate("pay:after")
    run = await client.submit(use("pay_idem", ref=f"of {workers}"), say("paid"))
    await gate.reached()
    deployment.kill9(deployment.worker_named((await client.run(run["id"]))["worker"]))
    killed = time.monotonic()
    await client.succeeded(run["id"])
    assert time.monotonic() - killed < in_time(5)
    assert len(world.payments.rows_for(f"of {workers}")) == 1
    assert (await client.event_types(run["id"])).count("run.taken_over") == 1


async def allow(client: Client, wait: str) -> None:
    """A request that a frozen worker's lock holds up is told to come back."""

    async def ask() -> bool:
        answer = await client.resolve(wait, {"decision": "allow"})
        assert answer.status_code in (200, 503), answer.text
        return answer.status_code == 200

    await eventually(ask, f"{wait} is answered")


@pytest.mark.case("B45")
async def test_decisions_that_arrive_in_a_takeover_are_carried_out_once_each(
    world: World, client: Client, deployment: Deployment
) -> None:
    """Many runs; one of two workers freezes as the answers come, each of them twice."""
    refs = [f"race {n:02}" for n in range(PARKED)]
    runs = [(await client.submit(use("refund", ref=ref), say("ok")))["id"] for ref in refs]
    waits = [(await client.open_wait(run))["id"] for run in runs]
    await deployment.start_worker()
    process = deployment.workers[0]
    gate = world.gate("pay:before", nth=5)
    answers = [asyncio.create_task(allow(client, wait)) for wait in waits * 2]
    await gate.reached()
    process.freeze()
    await asyncio.gather(*answers)
    gate.open()
    await asyncio.gather(*(client.succeeded(run, within=40) for run in runs))
    assert await deployment.thaw(process) == 1

    assert [len(world.payments.rows_for(ref)) for ref in refs] == [1] * PARKED
    for run, ref, wait in zip(runs, refs, waits, strict=True):
        (asked,) = await client.waits(run, kind="approval")
        assert (asked["id"], asked["resolution"]["decision"]) == (wait, "allow")
        (told,) = world.model.about(ref)[-1].last_results
        call = await client.call(run)
        assert (call["state"], call["result"]["ref"] in str(told["content"])) == ("succeeded", True)
        assert (await client.event_types(run)).count("run.succeeded") == 1
