"""Whatever becomes of runs, what they held is free for others afterwards."""

import random  # noqa: TID251 - no code that is replayed
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from app import Agent
from tests.acceptance.conftest import deployed
from tests.support.client import ENDED, Client, Json
from tests.support.database import Cluster
from tests.support.deployment import Deployment
from tests.support.environment import AGENTS
from tests.support.inspection import taken
from tests.support.polling import eventually
from tests.support.sampling import FULL
from tests.support.scripts import Step, refuse, say, use
from tests.support.world import World

ROOM = 6
RUNS = 50
KILLS, CANCELS = (6, 15) if FULL else (2, 10)

# The API knows it; no worker does.
gone = Agent(name="gone", model="claude-sonnet-5", instructions="Nobody carries this out.")


@pytest_asyncio.fixture
async def deployment(cluster: Cluster, tmp_path: Path) -> AsyncIterator[Deployment]:
    """Two workers with ten slots, six of which one key may take, and room for six model calls."""
    settings = {
        "PERDURE_WORKER_CONCURRENCY": "5",
        "PERDURE_QUEUE_KEY_CONCURRENCY": str(ROOM),
        "PERDURE_MODEL_CONCURRENCY": str(ROOM),
        "PERDURE_LEASE_SECONDS": "3",
    }
    async with deployed(cluster, tmp_path, workers=2, **settings) as deployment:
        yield deployment


def steps(dice: random.Random, n: int) -> list[Step]:
    pay = use("pay_idem", ref=f"p{n}")
    return dice.choice([[say("done")], [pay, say("done")], [pay, refuse(400)], [refuse(400)]])


async def ended(client: Client) -> list[Json]:
    page = (await client.http.get("/v1/runs", params={"limit": "200"})).json()
    return [run for run in page["data"] if run["status"] in ENDED]


async def have_ended(client: Client, count: int) -> None:
    async def probe() -> bool:
        return len(await ended(client)) >= count

    await eventually(probe, f"{count} runs have ended", 120)


@pytest.mark.case("B44")
@pytest.mark.parametrize("seed", range(3) if FULL else [44])
async def test_runs_killed_cancelled_and_failed_leave_all_capacity(
    world: World, client: Client, deployment: Deployment, seed: int
) -> None:
    dice = random.Random(seed)
    runs = [(await client.submit(*steps(dice, n)))["id"] for n in range(RUNS)]
    blows = ["kill"] * KILLS + ["cancel"] * CANCELS
    dice.shuffle(blows)
    for done, blow in enumerate(blows):
        await have_ended(client, done * RUNS // (2 * len(blows)))
        if blow == "kill":
            await deployment.crash(dice.choice(deployment.workers))
        else:
            assert (await client.cancel(dice.choice(runs))).status_code in (202, 409)
    await have_ended(client, RUNS)

    assert {run["status"] for run in await ended(client)} == {"succeeded", "failed", "cancelled"}
    assert taken(deployment.database_url) == {"legs": 0, "places": 0}
    held = world.gate("llm:arrive", span=ROOM)
    whole = [await client.submit(say("done")) for _ in range(ROOM)]
    await held.reached(holding=ROOM, within=30)
    held.open()
    for run in whole:
        await client.succeeded(run["id"])


@pytest.mark.case("B42")
async def test_a_run_that_nobody_can_carry_out_holds_up_no_other(
    client: Client, deployment: Deployment
) -> None:
    deployment.kill9_api()
    deployment.start_api(PERDURE_AGENTS=f"{AGENTS},{__name__}")
    await deployment.ready()

    runs = [await client.submit(say("done"), agent="gone" if n == 3 else "desk") for n in range(10)]

    bad = runs.pop(3)
    for run in runs:
        await client.succeeded(run["id"], within=30)
    found = await client.run(bad["id"])
    assert found["status"] in ("queued", "running")
    assert found["stalled"] == "no worker has agent gone"
    await client.cancel(bad["id"])
    await client.wait_for(bad["id"], "cancelled")
