"""Calls of unknown outcome: what they hold up, and the late word that may still settle them."""

import pytest

from app.store import calls
from tests.integration.store.stage import Stage, intent


async def test_a_lost_attempt_guards_its_tool_in_the_session_until_it_is_settled(
    stage: Stage,
) -> None:
    run, fence, first = await stage.calling("pay", "pay", "look")
    await stage.lose(run, fence, first)

    guarded = [
        (await calls.load(stage.connection, run, 1, index))["guarded"] for index in (0, 1, 2)
    ]
    assert guarded == [False, True, False]

    await calls.settle(stage.connection, first, '{"outcome":"skip"}', "ann")
    assert not (await calls.load(stage.connection, run, 1, 1))["guarded"]


@pytest.mark.parametrize("replay", ["at_most_once", "idempotent"])
async def test_what_an_earlier_execution_began_guards_its_tool_before_it_is_looked_into(
    stage: Stage, replay: str
) -> None:
    run, fence, first = await stage.calling("pay", "pay")
    await stage.start(stage.place(run, fence, first), intent(replay))
    assert not (await calls.load(stage.connection, run, 1, 1))["guarded"]

    await stage.take(run, "w2")

    guarded = (await calls.load(stage.connection, run, 1, 1))["guarded"]
    assert guarded is (replay == "at_most_once")


async def test_a_late_outcome_of_the_intents_own_attempt_settles_what_was_unknown(
    stage: Stage,
) -> None:
    run, fence, call = await stage.calling()
    at = stage.place(run, fence, call)
    await stage.start(at)
    second = await stage.take(run, "w2")
    await stage.finish(stage.place(run, second, call, 1, "w2"), "outcome_unknown")

    assert await stage.finish(at, result={"id": 7}) == "late"
    settled = await calls.settle_late(stage.connection, at, {"id": 7})

    assert (settled["verdict"], settled["leg"]) == ("settled", None)
    found = await stage.call(call)
    assert (found["state"], found["result"]) == ("succeeded", {"id": 7})
    assert (await stage.told(run))[-1] == "call.reconciled"
    assert await stage.finish(at) == "fenced"  # once is enough


async def test_a_late_outcome_wakes_the_run_that_asks_a_person_for_it(stage: Stage) -> None:
    run, fence, call = await stage.calling()
    at = stage.place(run, fence, call)
    await stage.start(at)
    second = await stage.take(run, "w2")
    held = stage.place(run, second, call, 1, "w2")
    await stage.hold(held, "outcome", attempt_ended="interrupted")
    wait = await stage.open_wait(call)
    assert await stage.park(run, second) == "parked"

    settled = await calls.settle_late(stage.connection, at, {"id": 7})

    assert settled["leg"] == 2
    assert (await stage.run(run))["status"] == "queued"
    assert (await stage.wait(wait))["state"] == "resolved"


@pytest.mark.parametrize("state", ["failed", "cancelled"])
async def test_only_a_success_settles_what_was_unknown(stage: Stage, state: str) -> None:
    run, fence, call = await stage.calling()
    await stage.lose(run, fence, call)
    await stage.take(run, "w2")

    assert await stage.finish(stage.place(run, fence, call), state) == "fenced"


@pytest.mark.parametrize(("attempt", "fence_shift"), [(2, 0), (1, -1)])
async def test_only_the_intents_own_attempt_settles_what_was_unknown(
    stage: Stage, attempt: int, fence_shift: int
) -> None:
    run, fence, call = await stage.calling()
    await stage.lose(run, fence, call)
    await stage.take(run, "w2")

    at = stage.place(run, fence + fence_shift, call, attempt)
    assert await stage.finish(at) == "fenced"
    assert (await calls.settle_late(stage.connection, at, {}))["verdict"] == "fenced"
    assert (await stage.call(call))["state"] == "outcome_unknown"


@pytest.mark.parametrize("state", ["succeeded", "failed", "cancelled"])
async def test_what_is_known_is_not_settled_by_an_old_execution(stage: Stage, state: str) -> None:
    run, fence, call = await stage.calling()
    at = stage.place(run, fence, call)
    await stage.start(at)
    second = await stage.take(run, "w2")
    await stage.finish(stage.place(run, second, call, 1, "w2"), state, result={"id": 1})

    assert await stage.finish(at, result={"id": 2}) == "fenced"
    assert (await calls.settle_late(stage.connection, at, {"id": 2}))["verdict"] == "fenced"
    assert (await stage.call(call))["result"] == {"id": 1}
