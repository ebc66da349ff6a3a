"""Deadlines of questions pass by the database's clock, whoever lives or looks at the time."""

import asyncio
from datetime import timedelta

import pytest

from app import Agent, ToolContext, tool
from tests.support.client import Client, Json
from tests.support.deployment import Deployment
from tests.support.outside import Reply, pay
from tests.support.scripts import say, use
from tests.support.world import World

pytestmark = pytest.mark.mended

SERVICE = {"PERDURE_AGENTS": __name__}

LIFE = timedelta(seconds=5)
PASSED = LIFE.total_seconds() + 0.5
ALLOW = {"decision": "allow"}


@tool(replay="idempotent", approval="always", expires=LIFE)
async def refund(ctx: ToolContext, ref: str, amount: int = 100) -> Reply:
    """Refund, if it is approved in time."""
    return await pay(ref, amount, ctx.idempotency_key)


@tool(external=True, expires=LIFE)
async def sign(ctx: ToolContext, ref: str) -> Reply:
    """Signed by the client, in time."""
    raise AssertionError


hasty = Agent(name="hasty", model="claude-sonnet-5", instructions="Hurry.", tools=[refund, sign])


async def asked(client: Client, tool: str, ref: str) -> tuple[str, Json]:
    """A run parked on a question with a deadline, and the question."""
    run = await client.submit(use(tool, ref=ref), say("understood"), agent="hasty")
    kind = "approval" if tool == "refund" else "external"
    return run["id"], await client.open_wait(run["id"], kind=kind)


async def assert_expired(world: World, client: Client, run: str, ref: str) -> None:
    assert (await client.call(run))["state"] == "expired"
    (told,) = world.model.about(ref)[-1].last_results
    assert told["is_error"] is True
    assert "expired" in str(told["content"])
    assert world.payments.calls_for(ref) == []
    assert [wait["state"] for wait in await client.waits(run)] == ["expired"]
    assert (await client.run(run))["waiting_for"] == []


@pytest.mark.case("A36", "B23")
async def test_a_deadline_that_passes_while_no_process_lives_is_kept_at_the_next_start(
    world: World, client: Client, deployment: Deployment
) -> None:
    swept, (late, question), signed = await asyncio.gather(
        *(asked(client, tool, f"a36-{n}") for n, tool in enumerate(("refund", "refund", "sign")))
    )
    deployment.kill_all()
    await asyncio.sleep(PASSED)
    await deployment.restart_api()
    answer = await client.resolve(question["id"], ALLOW)  # before any worker could sweep
    assert (answer.status_code, answer.json()["type"]) == (410, "/problems/wait-closed")
    await deployment.start_worker()
    for nth, run in enumerate((swept[0], late, signed[0])):
        await client.succeeded(run, within=10)
        await assert_expired(world, client, run, f"a36-{nth}")
    for wait in (swept[1], question):
        assert (await client.resolve(wait["id"], ALLOW)).status_code == 410


@pytest.mark.case("A37")
async def test_a_decision_in_time_is_carried_out_although_its_deadline_passes_before_a_worker_lives(
    world: World, client: Client, deployment: Deployment
) -> None:
    run, question = await asked(client, "refund", "a37")
    deployment.kill9()
    decided = await client.allow(question["id"])
    await asyncio.sleep(PASSED)
    assert world.payments.calls_for("a37") == []
    await deployment.start_worker()
    await client.succeeded(run)
    assert len(world.payments.calls_for("a37")) == 1
    assert await client.waits(run) == [decided]
    assert await client.allow(question["id"]) == decided


async def test_a_question_that_nobody_answers_is_closed_in_time_and_once(
    world: World, client: Client, deployment: Deployment
) -> None:
    await deployment.start_worker()  # two sweeps
    runs = await asyncio.gather(*(asked(client, "refund", f"unheard-{n}") for n in range(10)))
    for nth, (run, _) in enumerate(runs):
        await client.succeeded(run)
        await assert_expired(world, client, run, f"unheard-{nth}")
        types = await client.event_types(run)
        assert (types.count("wait.expired"), types.count("call.expired")) == (1, 1)
