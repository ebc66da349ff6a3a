"""Decisions that come the moment a question can be seen, or a worker dies: none is missed."""

import asyncio
from collections.abc import Sequence

import httpx
import pytest
import pytest_asyncio

from tests.support.client import Client
from tests.support.deployment import Deployment
from tests.support.questions import announced_questions
from tests.support.sampling import FULL
from tests.support.scripts import Step, say, together, use
from tests.support.world import World

QUICK = 200 if FULL else 32
LARGE = 50 if FULL else 5
TAKEOVERS = 50 if FULL else 12
AT_ONCE = 8
KIB = 1024
LATEST = 0.05

pytestmark = pytest.mark.timeout(900 if FULL else 180)


@pytest_asyncio.fixture
async def deployment(shared_deployment: Deployment) -> Deployment:
    """One service for all tests; each finds it whole."""
    await shared_deployment.mend()
    return shared_deployment


@pytest.mark.case("B80")
async def test_a_decision_in_the_moment_of_the_question_is_not_missed(
    world: World, client: Client, deployment: Deployment
) -> None:
    steps = [[use("refund", ref=f"b80-{n}."), say("done")] for n in range(QUICK)]
    await decide_as_soon_as_asked(client, deployment, steps)
    for n in range(QUICK):
        assert len(world.payments.calls_for(f"b80-{n}.")) == 1


@pytest.mark.case("B22")
async def test_a_quick_decision_over_a_large_history_is_accepted(
    world: World, client: Client, deployment: Deployment
) -> None:
    large = together(*(use("big_read", size=220 * KIB) for _ in range(5)))
    steps = [[large, use("refund", ref=f"b22-{n}."), say("done")] for n in range(LARGE)]
    await decide_as_soon_as_asked(client, deployment, steps)
    for n in range(LARGE):
        assert len(world.payments.calls_for(f"b22-{n}.")) == 1
        assert len(world.model.about(f"b22-{n}.")[-1].raw) > 5 * 220 * KIB


async def decide_as_soon_as_asked(
    client: Client, deployment: Deployment, scripts: Sequence[Sequence[Step]]
) -> None:
    """Each run asks once; the decision goes out with the commit of the question."""
    allowing: list[asyncio.Task[httpx.Response]] = []
    slots = asyncio.Semaphore(AT_ONCE)

    async def carry_out(steps: Sequence[Step]) -> None:
        async with slots:
            run = await client.submit(*steps)
            await client.succeeded(run["id"], within=60)
            (asked,) = await client.waits(run["id"], kind="approval")
            assert asked["state"] == "resolved"
            assert "run.handed_off" not in await client.event_types(run["id"])

    async with announced_questions(deployment.database_url) as questions:
        carrying = asyncio.gather(*map(carry_out, scripts))
        async for _, wait in questions.next(len(scripts), within=60):
            allowing.append(asyncio.create_task(client.resolve(wait, {"decision": "allow"})))
        answers = await asyncio.gather(*allowing)
        await carrying
    assert [answer.status_code for answer in answers] == [200] * len(scripts)


@pytest.mark.case("B45")
async def test_workers_that_race_for_a_parked_run_as_its_decision_arrives_carry_it_out_once(
    world: World, client: Client, deployment: Deployment
) -> None:
    """One of three workers dies as the decisions come: its legs are taken over by the others."""
    for _ in range(2):
        await deployment.start_worker()
    refs = [f"b45-{n}." for n in range(TAKEOVERS)]
    runs = [(await client.submit(use("refund", ref=ref), say("done")))["id"] for ref in refs]
    waits = [(await client.open_wait(run))["id"] for run in runs]
    gate = world.gate("pay:after")
    deciding = [asyncio.create_task(client.allow(wait)) for wait in waits for _ in range(2)]
    await gate.reached()
    first = next(paid.ref for paid in world.payments.calls if paid.ref in refs)
    holder = await holder_of(client, first, refs, runs)
    deployment.kill9(deployment.worker_named(holder))
    decided = await asyncio.gather(*deciding)
    for nth, (run, ref) in enumerate(zip(runs, refs, strict=True)):
        await client.succeeded(run, within=60)
        assert await client.waits(run) == [decided[2 * nth]] == [decided[2 * nth + 1]]
        assert len(world.payments.rows_for(ref)) == 1
        call = await client.call(run)
        assert {paid.key for paid in world.payments.calls_for(ref)} == {call["idempotency_key"]}
        assert len(world.payments.calls_for(ref)) <= call["attempts"]
        assert world.model.steps(ref) in ([0, 1], [0, 1, 1])  # the kill may meet a model call


async def holder_of(client: Client, ref: str, refs: list[str], runs: list[str]) -> str:
    """The worker that made the payment."""
    call = await client.call(runs[refs.index(ref)])
    return str(call["worker"])
