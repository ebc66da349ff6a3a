"""A model that limits its callers: all workers heed what one of them was told."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.acceptance.conftest import deployed
from tests.support.client import Client
from tests.support.database import Cluster
from tests.support.deployment import Deployment
from tests.support.model_traffic import Pace
from tests.support.sampling import FULL
from tests.support.scripts import say
from tests.support.world import World

RUNS, ROOM = 20, 6
# In the whole suite the model is as slow as in the case; the sample takes half of its time.
PACE = Pace(every=1.0 if FULL else 0.25, retry_after=2)
# Between a refusal that the model has sent and the commit that tells all workers of it, on a
# machine that has other things to do.
ON_THEIR_WAY = 1.0


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def limited(
    cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Deployment]:
    """Two workers that could ask for ten runs at once, and may for six."""
    slots, room = {"PERDURE_WORKER_CONCURRENCY": "5"}, {"PERDURE_MODEL_CONCURRENCY": str(ROOM)}
    logs = tmp_path_factory.mktemp("logs")
    async with deployed(cluster, logs, workers=2, **slots, **room) as deployment:
        yield deployment


@pytest.fixture
def deployment(limited: Deployment) -> Deployment:
    return limited


async def test_no_more_calls_are_under_way_than_the_model_has_room_for(
    world: World, client: Client
) -> None:
    held = world.gate("llm:arrive", span=ROOM)
    first = [await client.submit(say("done")) for _ in range(ROOM)]
    await held.reached(holding=ROOM, within=60)

    others = [await client.submit(say("done")) for _ in range(ROOM)]
    waits = [await client.open_wait(run["id"], "timer", within=60) for run in others]

    assert {wait["question"] for wait in waits} == {"when the provider has room"}
    assert len(world.model.requests) == ROOM
    held.open()
    for run in (*first, *others):
        await client.succeeded(run["id"], within=60)
    assert world.model.statuses() == [200] * 2 * ROOM


@pytest.mark.case("B62")
async def test_all_runs_succeed_with_a_model_that_allows_few_calls(
    world: World, client: Client
) -> None:
    before = len(world.model.requests)
    world.model.pace = PACE
    runs = [await client.submit(say("done")) for _ in range(RUNS)]

    ended = await asyncio.gather(*(client.ended(run["id"], within=120) for run in runs))

    assert {run["status"] for run in ended} == {"succeeded"}
    asked = world.model.requests[before:]
    assert [request.status for request in asked].count(200) == RUNS
    assert PACE.ignored(asked, ON_THEIR_WAY) == []
