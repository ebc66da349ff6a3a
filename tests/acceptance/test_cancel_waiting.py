"""Cancelling a run that waits: for a person, for a client, for the clock, for the model."""

import asyncio
import time

import httpx
import pytest
import pytest_asyncio

from tests.support.client import Client, Json
from tests.support.deployment import Deployment
from tests.support.polling import eventually
from tests.support.questions import announced_questions
from tests.support.sabotage import held_commit
from tests.support.scripts import refuse, say, use
from tests.support.world import World

# A model call that failed is made again after 0.5 s, then 1 s, then 2 s, each spread by a quarter.
LONGEST_BACK_OFF = 2.5


@pytest_asyncio.fixture
async def deployment(shared_deployment: Deployment) -> Deployment:
    """One service for all tests; each finds it whole."""
    await shared_deployment.mend()
    return shared_deployment


@pytest.mark.case("B59")
async def test_a_model_that_is_busy_for_ever_is_not_asked_after_a_cancel(
    world: World, client: Client
) -> None:
    mark = "<busy for ever>"
    run = await client.submit(refuse(529, retry_after=0), preface=mark)

    async def was_asked_twice() -> bool:
        return world.model.statuses(mark).count(529) >= 2

    await eventually(was_asked_twice, "the model was asked again")
    assert (await client.cancel(run["id"])).status_code == 202
    answered = time.monotonic()
    await client.wait_for(run["id"], "cancelled")
    await asyncio.sleep(LONGEST_BACK_OFF)
    assert world.model.about(mark)[-1].arrived_at <= answered + 0.5
    assert {wait["state"] for wait in await client.waits(run["id"])} <= {"resolved", "cancelled"}


async def test_an_attempt_that_waits_for_its_time_is_not_made_after_a_cancel(
    world: World, client: Client, deployment: Deployment
) -> None:
    async with announced_questions(deployment.database_url, "timer") as questions:
        run = await client.submit(use("flaky", failures=9), say("done"))
        async for _ in questions.next(1, within=20):
            assert (await client.cancel(run["id"])).status_code == 202
    cancelled = await client.wait_for(run["id"], "cancelled")
    made = world.effects.count("flaky")
    await asyncio.sleep(LONGEST_BACK_OFF)
    assert world.effects.count("flaky") == made
    # It raised, and nobody has looked since what it did.
    assert (await client.call(run["id"]))["state"] == "outcome_unknown"
    assert [effect["effect"] for effect in cancelled["effects"]] == ["unknown"]


async def test_a_question_what_happened_is_closed_by_a_cancel_and_can_be_settled_later(
    world: World, client: Client, deployment: Deployment
) -> None:
    gate = world.gate("pay:after")
    run = await client.submit(use("pay_once_ask", ref="settled-later"), say("noted"))
    await gate.reached()
    await deployment.crash()
    wait = await client.open_wait(run["id"], kind="outcome")
    call = await client.call(run["id"])
    happened: Json = {"outcome": "happened", "result": {"receipt": "r-1"}}
    assert (await client.settle(call["id"], happened)).status_code == 409  # the wait holds it

    assert (await client.cancel(run["id"])).status_code == 202
    cancelled = await client.wait_for(run["id"], "cancelled")
    assert [effect["effect"] for effect in cancelled["effects"]] == ["unknown"]
    late = await client.resolve(wait["id"], happened)
    assert (late.status_code, late.json()["type"]) == (410, "/problems/wait-closed")
    assert (await client.settle(call["id"], happened)).status_code == 200
    settled = await client.call(run["id"])
    assert (settled["state"], settled["result"]) == ("succeeded", {"receipt": "r-1"})
    assert (len(world.payments.calls_for("settled-later")), world.model.steps("settled-later")) == (
        1,
        [0],
    )


@pytest.mark.parametrize("how", ["rolled_back", "committed"])
async def test_kill_of_the_api_in_the_commit_of_a_cancel_keeps_it_whole_or_not_at_all(
    world: World, client: Client, deployment: Deployment, how: str
) -> None:
    ref = f"halfway {how}"
    run = await client.submit(use("refund", ref=ref), say("refunded"))
    wait = await client.open_wait(run["id"])
    with held_commit(deployment.database_url, "run.cancelled") as commit:
        answer = asyncio.create_task(client.cancel(run["id"]))
        await commit.reached()
        deployment.kill9_api()
        commit.end(how)
        with pytest.raises(httpx.TransportError):
            await answer
    await deployment.restart_api()
    if how == "rolled_back":
        assert await client.open_wait(run["id"]) == wait
        await client.allow(wait["id"])
        await client.succeeded(run["id"])
    else:
        await client.wait_for(run["id"], "cancelled")
        assert (await client.resolve(wait["id"], {"decision": "allow"})).status_code == 410
    assert len(world.payments.calls_for(ref)) == (how == "rolled_back")
