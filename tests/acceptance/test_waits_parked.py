"""A parked run costs nothing, belongs to nobody, and hears what was said to it meanwhile."""

import asyncio

import psutil
import pytest
import pytest_asyncio

from tests.support.client import Client
from tests.support.deployment import Deployment
from tests.support.inspection import connections
from tests.support.sampling import FULL
from tests.support.scripts import say, use
from tests.support.world import World

BURST = 20
# In all, and to begin with: parked already when the worker is first measured.
PARKED, AT_FIRST = (2000, 100) if FULL else (100, 40)
BALLAST = "x" * 100_000


@pytest_asyncio.fixture
async def deployment(shared_deployment: Deployment) -> Deployment:
    """One service for all tests; each finds it whole."""
    await shared_deployment.mend()
    return shared_deployment


@pytest.mark.case("A21", "B75")
@pytest.mark.timeout(1800 if FULL else 180)
async def test_parked_runs_hold_no_thread_no_connection_and_no_memory(
    world: World, client: Client, deployment: Deployment
) -> None:
    runs = await park(client, 0, AT_FIRST)
    worker = psutil.Process(deployment.worker.pid)
    threads, open_before = worker.num_threads(), connections(deployment.database_url)
    memory = worker.memory_info().rss
    runs += await park(client, AT_FIRST, PARKED)
    assert worker.num_threads() - threads <= 8
    assert connections(deployment.database_url) - open_before <= 8
    held = sum(len(BALLAST) for _ in runs[AT_FIRST:])
    assert worker.memory_info().rss - memory < held  # not one copy of what they were given

    plain = await client.submit(use("pay_idem", ref="plain"), say("paid"))
    await client.succeeded(plain["id"], within=10)
    for first in range(0, PARKED, BURST):
        await asyncio.gather(*(resume(client, run) for run in runs[first : first + BURST]))
    assert [len(world.payments.calls_for(f"a21-{n}.")) for n in range(PARKED)] == [1] * PARKED


async def park(client: Client, first: int, last: int) -> list[str]:
    """In bursts of one size, so that threads and connections tell of parked runs alone."""
    runs: list[str] = []
    for start in range(first, last, BURST):
        submitting = (
            client.submit(use("refund", ref=f"a21-{n}."), say("done"), preface=BALLAST)
            for n in range(start, start + BURST)
        )
        burst = [run["id"] for run in await asyncio.gather(*submitting)]
        await asyncio.gather(*(client.open_wait(run, within=60) for run in burst))
        runs += burst
    return runs


async def resume(client: Client, run: str) -> None:
    (wait,) = await client.waits(run, state="open")
    await client.allow(wait["id"])
    await client.succeeded(run, within=60)


@pytest.mark.case("B17")
async def test_a_run_parked_by_a_worker_that_has_left_goes_on_with_another(
    world: World, client: Client, deployment: Deployment
) -> None:
    leaver = deployment.worker
    run = await client.submit(use("refund", ref="moves"), say("refunded"))
    wait = await client.open_wait(run["id"])
    other = await deployment.start_worker()
    assert await deployment.terminate(leaver) == 0
    await client.allow(wait["id"])
    await client.succeeded(run["id"])
    assert [asked["id"] for asked in await client.waits(run["id"])] == [wait["id"]]
    call = await client.call(run["id"])
    assert deployment.worker_named(call["worker"]) is other
    assert (call["attempts"], len(world.payments.calls_for("moves"))) == (1, 1)
    assert world.model.steps("moves") == [0, 1]


@pytest.mark.case("A42", "A26")
async def test_messages_to_a_parked_run_are_heard_once_and_in_order_after_a_crash(
    world: World, client: Client, deployment: Deployment
) -> None:
    said = [f"thing number {n}." for n in range(5)]
    run = await client.submit(use("refund", ref="<hears>"), use("count", name="n"), say("done"))
    wait = await client.open_wait(run["id"])
    for text in said[:3]:
        assert (await client.send(run["id"], text)).status_code == 202
    deployment.kill9()
    for text in said[3:]:
        assert (await client.send(run["id"], text)).status_code == 202
    assert (await client.run(run["id"]))["status"] == "waiting"
    await client.allow(wait["id"])
    gate = world.gate("llm:1")
    await deployment.start_worker()
    await gate.reached()
    await deployment.crash()
    await client.succeeded(run["id"])
    heard = [
        [text for spoken in request.texts for text in said if text in spoken]
        for request in world.model.about("<hears>")
    ]
    assert world.model.steps("<hears>") == [0, 1, 1, 2]
    assert heard == [[], said, said, said]
    assert {(m["state"], m["turn"]) for m in await client.messages(run["id"])} == {("delivered", 2)}
    assert len(world.payments.calls_for("<hears>")) == 1
