"""Runs of one queue key leave room for others, and go in the order of their priority."""

from collections.abc import AsyncIterator
from datetime import datetime

import pytest
import pytest_asyncio

from tests.acceptance.conftest import deployed
from tests.support.client import Client
from tests.support.database import Cluster
from tests.support.deployment import Deployment
from tests.support.scripts import Step, say, script, use
from tests.support.world import World

SLOTS, SHARE = 5, 4
OF_KEY, MOST_QUEUED = 2, 6
RATE, SECONDS = 3, 4.0


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def fair(
    cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Deployment]:
    """One worker with five slots, as it is by default."""
    logs = tmp_path_factory.mktemp("logs")
    async with deployed(cluster, logs, PERDURE_WORKER_CONCURRENCY=str(SLOTS)) as deployment:
        yield deployment


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def limited(
    cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Deployment]:
    """Two workers, and limits for each key over both of them."""
    limits = {
        "PERDURE_QUEUE_KEY_CONCURRENCY": str(OF_KEY),
        "PERDURE_QUEUE_KEY_RATE": f"{RATE}/{SECONDS}",
        "PERDURE_QUEUE_LIMIT": str(MOST_QUEUED),
    }
    logs = tmp_path_factory.mktemp("logs")
    async with deployed(cluster, logs, workers=2, **limits) as deployment:
        yield deployment


@pytest.fixture
def deployment(request: pytest.FixtureRequest) -> Deployment:
    name = "limited" if request.node.get_closest_marker("limits") else "fair"
    found = request.getfixturevalue(name)
    assert isinstance(found, Deployment)
    return found


def held(name: str) -> list[Step]:
    """A run that is in its tool until the gate lets it go."""
    return [use("count", name=name), say("done")]


async def test_a_burst_of_one_key_leaves_slots_to_another(world: World, client: Client) -> None:
    gate = world.gate("burst:before", span=20)
    burst = [await client.submit(*held("burst"), queue_key="burst") for _ in range(20)]
    await gate.reached(holding=SHARE, within=60)

    other = await client.submit(say("done"), queue_key="other")
    await client.succeeded(other["id"])

    assert gate.held == gate.arrivals == SHARE
    gate.open()
    for run in burst:
        await client.succeeded(run["id"], within=60)


async def test_the_lower_number_goes_first(world: World, client: Client) -> None:
    """With one slot left to the key, so that one follows the other."""
    kept, first = world.gate("kept:before", span=SHARE), world.gate("first:before")
    before = [*(held("kept") for _ in range(SHARE - 1)), held("first")]
    others = [await client.submit(*steps, queue_key="queue") for steps in before]
    await kept.reached(holding=SHARE - 1, within=60)
    await first.reached(within=60)
    runs = {
        n: await client.submit(say("done"), queue_key="queue", priority=n)
        for n in (7, 0, 9, 3, 1, 5)
    }

    first.open()

    began = {n: (await client.succeeded(run["id"], 60))["started_at"] for n, run in runs.items()}
    assert sorted(began, key=lambda n: began[n]) == [0, 1, 3, 5, 7, 9]
    kept.open()
    for run in others:
        await client.succeeded(run["id"], within=60)


async def test_children_and_forks_count_for_the_same_key(client: Client) -> None:
    parent = await client.submit(
        use("delegate", agent="desk", input=script(say("done"))), say("done"), queue_key="family"
    )
    await client.succeeded(parent["id"], within=60)

    fork = (await client.fork(parent["id"], 1)).json()
    child = await client.child(parent["id"])

    assert (fork["queue_key"], child["queue_key"]) == ("family", "family")
    await client.succeeded(fork["id"], within=60)


@pytest.mark.limits
async def test_a_key_takes_no_more_slots_than_it_may_over_all_workers(
    world: World, client: Client
) -> None:
    gate = world.gate("few:before", span=OF_KEY)
    runs = [await client.submit(*held("few"), queue_key="few") for _ in range(RATE)]
    await gate.reached(holding=OF_KEY, within=60)

    other = await client.submit(say("done"), queue_key="free")
    await client.succeeded(other["id"])

    states = [(await client.run(run["id"]))["status"] for run in runs]
    assert sorted(states) == ["queued", "running", "running"]
    assert gate.arrivals == OF_KEY
    gate.open()
    for run in runs:
        await client.succeeded(run["id"], within=60)


@pytest.mark.limits
async def test_a_key_begins_no_more_runs_in_a_while_than_it_may(client: Client) -> None:
    runs = [await client.submit(say("done"), queue_key="rated") for _ in range(2 * RATE)]
    ended = [await client.succeeded(run["id"], within=60) for run in runs]

    began = sorted(seconds_of(run["started_at"]) for run in ended)
    spans = [later - earlier for earlier, later in zip(began, began[RATE:], strict=False)]
    # From the claim, which the rate counts, to the start it takes a moment.
    assert all(span > SECONDS - 1 for span in spans), began


@pytest.mark.limits
async def test_a_full_queue_refuses_and_stores_nothing(world: World, client: Client) -> None:
    gate = world.gate("full:before", span=OF_KEY)
    runs = [await client.submit(*held("full"), queue_key="full") for _ in range(OF_KEY)]
    await gate.reached(holding=OF_KEY, within=60)
    body = {"agent": "desk", "input": script(say("done")), "queue_key": "full"}
    queued = [await client.post_run(body, idempotency_key=f"k{n}") for n in range(MOST_QUEUED)]

    refused = await client.post_run(body, idempotency_key="late")

    assert {answer.status_code for answer in queued} == {202}
    assert (refused.status_code, refused.json()["type"]) == (429, "/problems/queue-full")
    assert int(refused.headers["retry-after"]) > 0
    assert (await client.post_run(body, idempotency_key="k0")).status_code == 200
    listed = await client.http.get("/v1/runs?queue_key=full&limit=200")
    assert len(listed.json()["data"]) == OF_KEY + MOST_QUEUED
    gate.open()
    for run in (*runs, *(answer.json() for answer in queued)):
        await client.succeeded(run["id"], within=60)
    accepted = await client.post_run(body, idempotency_key="late")
    assert accepted.status_code == 202
    await client.succeeded(accepted.json()["id"], within=60)


def seconds_of(moment: str) -> float:
    return datetime.fromisoformat(moment.replace("Z", "+00:00")).timestamp()
