"""A cancel is committed before its answer, and nothing starts after it."""

import asyncio

import pytest

from tests.support.client import Client
from tests.support.deployment import Deployment
from tests.support.scripts import say, together, use
from tests.support.world import World


async def assert_the_worker_works(client: Client) -> None:
    """Whatever else was to be done has had its turn once a later run has ended."""
    run = await client.submit(use("count", name="barrier"), say("alive"))
    await client.succeeded(run["id"])


async def test_cancelling_a_queued_run_needs_no_worker(
    world: World, client: Client, deployment: Deployment
) -> None:
    deployment.kill9()
    run = await client.submit(use("pay_idem", ref="queued"), say("paid"))
    answer = await client.cancel(run["id"])
    assert answer.status_code == 202
    cancelled = await client.wait_for(run["id"], "cancelled", within=2)
    assert cancelled["finished_at"]
    await deployment.start_worker()
    await assert_the_worker_works(client)
    assert (await client.run(run["id"]))["status"] == "cancelled"
    assert world.model.about("queued") == []
    assert (await client.event_types(run["id"]))[-1] == "run.cancelled"


@pytest.mark.case("B55")
async def test_no_model_call_starts_after_the_answer_to_a_cancel(
    world: World, client: Client
) -> None:
    gate = world.gate("sync:before")
    calls = (use("count_sync", name=name) for name in ("a", "sync", "b", "c", "d"))
    run = await client.submit(*calls, say("done"))
    await gate.reached()
    assert (await client.cancel(run["id"])).status_code == 202
    asked = world.model.steps("count_sync")
    await asyncio.sleep(1)  # a worker looks for cancels each half second
    assert (await client.run(run["id"]))["status"] == "cancelling"
    gate.open()
    await client.wait_for(run["id"], "cancelled")
    await assert_the_worker_works(client)
    assert world.model.steps("count_sync") == asked == [0, 1]
    assert [world.effects.count(name) for name in ("a", "b", "c", "d")] == [1, 0, 0, 0]


@pytest.mark.case("B55")
@pytest.mark.calm
async def test_a_cancel_reaches_an_async_body_that_is_at_work(world: World, client: Client) -> None:
    gate = world.gate("nap:after")
    run = await client.submit(use("nap", seconds=55), say("done"), preface="<asleep> ")
    await gate.reached()
    gate.open()
    await client.cancel(run["id"])
    await client.wait_for(run["id"], "cancelled")
    assert world.model.steps("<asleep>") == [0]


@pytest.mark.calm
async def test_a_tool_may_look_for_the_cancel_itself(world: World, client: Client) -> None:
    gate = world.gate("until_cancelled:after")
    run = await client.submit(use("until_cancelled"), say("done"), preface="<look> ")
    await gate.reached()
    gate.open()
    await client.cancel(run["id"])
    await client.wait_for(run["id"], "cancelled")
    assert world.model.steps("<look>") == [0]


@pytest.mark.calm
async def test_cancelling_during_a_model_call_ends_the_run(world: World, client: Client) -> None:
    gate = world.gate("llm:0")
    run = await client.submit(use("pay_once", ref="cancelled"), say("paid"))
    await gate.reached()
    await client.cancel(run["id"])
    await client.wait_for(run["id"], "cancelled")
    gate.open()
    await assert_the_worker_works(client)
    assert world.payments.calls_for("cancelled") == []


@pytest.mark.parametrize("window", ["before", "after"])
async def test_kill_right_after_the_answer_to_a_cancel_forgets_nothing(
    world: World, client: Client, deployment: Deployment, window: str
) -> None:
    gate = world.gate(f"pay:{window}")
    run = await client.submit(use("pay_idem", ref="cancel"), say("paid"))
    await gate.reached()
    answer = await client.cancel(run["id"])
    deployment.kill9()
    assert answer.status_code == 202
    await deployment.start_worker()
    await client.wait_for(run["id"], "cancelled")
    await assert_the_worker_works(client)
    assert len(world.payments.calls_for("cancel")) == 1
    assert world.model.steps("pay_idem") == [0]
    assert (await client.event_types(run["id"])).count("run.cancelled") == 1


async def test_kill_after_a_cancel_keeps_the_unknown_outcome_visible(
    world: World, client: Client, deployment: Deployment
) -> None:
    gate = world.gate("pay:after")
    run = await client.submit(use("pay_once", ref="cancel-once"), say("paid"))
    await gate.reached()
    await client.cancel(run["id"])
    deployment.kill9()
    await deployment.start_worker()
    cancelled = await client.wait_for(run["id"], "cancelled")
    assert (await client.call(run["id"]))["state"] == "outcome_unknown"
    assert [effect["effect"] for effect in cancelled["effects"]] == ["unknown"]
    assert len(world.payments.calls) == 1


@pytest.mark.calm
async def test_cancelling_a_parked_run_closes_its_questions(world: World, client: Client) -> None:
    run = await client.submit(
        together(use("refund", ref="one"), use("refund", ref="two")), say("done")
    )
    waits = await client.open_waits(run["id"], count=2)
    assert (await client.cancel(run["id"])).status_code == 202
    await client.wait_for(run["id"], "cancelled")
    for wait in waits:
        late = await client.resolve(wait["id"], {"decision": "allow"})
        assert (late.status_code, late.json()["type"]) == (410, "/problems/wait-closed")
    assert world.payments.calls_for("one") == world.payments.calls_for("two") == []
    again = await client.cancel(run["id"])
    assert (again.status_code, again.json()["type"]) == (409, "/problems/run-ended")
