"""Waits and settlements: the first resolution wins, and one that comes too late does not."""

from typing import Any

import pytest

from app.domain.canonical import canonical_json
from app.store import calls, waits
from app.store.db import Row
from tests.integration.store.stage import (
    ALLOW,
    DENY,
    DID_NOT_HAPPEN,
    HAPPENED,
    SKIP,
    Stage,
    intent,
)


async def asked(stage: Stage, **more: Any) -> tuple[str, str, str]:
    """A run parked on an approval: the run, the call, the wait."""
    run, fence, call = await stage.calling()
    wait = await stage.ask(run, fence, call, **more)
    assert await stage.park(run, fence) == "parked"
    return run, call, wait


async def lost(stage: Stage) -> tuple[str, str, str]:
    """A run parked on the question what became of a call."""
    run, fence, call = await stage.calling()
    await stage.lose(run, fence, call, ask=True)
    assert await stage.park(run, fence) == "parked"
    return run, call, await stage.open_wait(call)


async def settle(stage: Stage, call: str, settlement: str) -> Row:
    return await calls.settle(stage.connection, call, settlement, "ann")


@pytest.mark.parametrize(
    ("resolution", "state", "event"),
    [(ALLOW, "ready", "wait.resolved"), (DENY, "denied", "call.denied")],
)
async def test_a_decision_moves_the_call_and_wakes_the_run(
    stage: Stage, resolution: str, state: str, event: str
) -> None:
    run, call, wait = await asked(stage)

    answer = await stage.resolve(wait, resolution)

    assert answer == {"verdict": "resolved", "run": run, "leg": 2, "cancelling": None}
    assert (await stage.call(call))["state"] == state
    assert (await stage.run(run))["status"] == "queued"
    assert (await stage.told(run))[-1] == event
    found = await stage.wait(wait)
    assert (found["state"], found["resolved_by"]) == ("resolved", "ann")
    assert (found["resolved_via"], found["resolved_at"] is None) == ("http", False)


async def test_the_reason_of_a_denial_is_told_to_the_model(stage: Stage) -> None:
    _, call, wait = await asked(stage)

    await stage.resolve(wait, DENY)

    assert (await stage.call(call))["result"] == {"error": "denied", "detail": "Too much."}


async def test_the_same_answer_again_wakes_nothing_and_keeps_the_first_record(
    stage: Stage,
) -> None:
    run, _, wait = await asked(stage)
    await stage.resolve(wait, DENY, by="ann")
    told = await stage.told(run)

    again = await stage.resolve(wait, canonical_json({"decision": "deny"}), by="bob")

    assert (again["verdict"], again["leg"]) == ("same", None)
    assert (await stage.wait(wait))["resolved_by"] == "ann"
    assert await stage.told(run) == told


async def test_a_contrary_answer_is_refused(stage: Stage) -> None:
    _, call, wait = await asked(stage)
    await stage.resolve(wait, DENY)

    assert (await stage.resolve(wait, ALLOW))["verdict"] == "other"
    assert (await stage.call(call))["state"] == "denied"


async def test_a_person_cannot_allow_what_was_not_shown(stage: Stage) -> None:
    _, call, wait = await asked(stage)

    assert (await stage.resolve(wait, ALLOW, "another hash"))["verdict"] == "stale"
    assert (await stage.call(call))["state"] == "waiting"
    assert (await stage.resolve(wait, ALLOW, intent().arguments_hash))["verdict"] == "resolved"


async def test_an_answer_after_the_deadline_expires_the_wait_unswept(stage: Stage) -> None:
    run, call, wait = await asked(stage, seconds=-1.0)

    answer = await stage.resolve(wait, ALLOW)

    assert answer == {"verdict": "closed", "run": run, "leg": 2, "cancelling": None}
    assert (await stage.wait(wait))["state"] == "expired"
    assert (await stage.call(call))["state"] == "expired"
    assert (await stage.told(run))[-2:] == ["wait.expired", "call.expired"]
    assert (await stage.resolve(wait, ALLOW))["leg"] is None


@pytest.mark.parametrize("closed", ["cancelled", "superseded"])
async def test_a_closed_wait_takes_no_answer(stage: Stage, closed: str) -> None:
    run, fence, call = await stage.calling()
    wait = await stage.ask(run, fence, call)
    if closed == "cancelled":
        await stage.cancel(run, fence)
    else:
        await stage.resolve(wait, ALLOW)
        await stage.ask(run, fence, call, supersedes=wait)

    assert (await stage.resolve(wait, ALLOW))["verdict"] == "closed"
    assert (await stage.wait(wait))["state"] == closed


async def test_a_wait_that_never_was_is_missing(stage: Stage) -> None:
    assert (await stage.resolve("wait_none", ALLOW))["verdict"] == "missing"


async def test_an_answer_to_a_running_run_starts_no_leg(stage: Stage) -> None:
    run, fence, call = await stage.calling()
    wait = await stage.ask(run, fence, call)

    assert (await stage.resolve(wait, ALLOW))["leg"] is None
    assert (await stage.run(run))["status"] == "running"


@pytest.mark.parametrize(
    ("resolution", "state", "skipped", "result"),
    [
        (HAPPENED, "succeeded", False, {"id": 7}),
        (DID_NOT_HAPPEN, "ready", False, None),
        (SKIP, "outcome_unknown", True, {"error": "outcome_unknown", "detail": "interrupted"}),
    ],
)
async def test_an_outcome_is_settled_as_a_person_says(
    stage: Stage, resolution: str, state: str, skipped: bool, result: object
) -> None:
    run, call, wait = await lost(stage)

    assert (await stage.resolve(wait, resolution))["leg"] == 2

    found = await stage.call(call)
    assert (found["state"], found["skipped"], found["result"]) == (state, skipped, result)
    assert (await stage.told(run))[-2:] == ["wait.resolved", "call.reconciled"]


async def test_a_result_that_differs_is_another_resolution(stage: Stage) -> None:
    _, _, wait = await lost(stage)
    await stage.resolve(wait, HAPPENED)
    other = canonical_json({"outcome": "happened", "result": {"id": 8}})

    assert (await stage.resolve(wait, HAPPENED))["verdict"] == "same"
    assert (await stage.resolve(wait, other))["verdict"] == "other"


async def test_the_clock_acts_only_on_what_is_due(stage: Stage) -> None:
    _, _, wait = await asked(stage, seconds=60.0)

    assert await waits.expire(stage.connection, wait) == {"run": None, "leg": None}
    assert (await stage.wait(wait))["state"] == "open"


async def test_a_due_timer_is_resolved_and_wakes_its_run(stage: Stage) -> None:
    run, fence, call = await stage.calling()
    at = stage.place(run, fence, call)
    await stage.hold(at, "timer", intent("read_only"), seconds=0.0, attempt_ended="raised")
    wait = await stage.open_wait(call)
    await stage.park(run, fence)

    assert await waits.expire(stage.connection, wait) == {"run": run, "leg": 2}
    assert await waits.expire(stage.connection, wait) == {"run": None, "leg": None}
    assert (await stage.wait(wait))["state"] == "resolved"
    assert (await stage.call(call))["state"] == "ready"


async def test_the_clock_passes_over_a_run_that_somebody_holds(stage: Stage, other: Stage) -> None:
    run, _, wait = await asked(stage, seconds=-1.0)
    async with other.connection.transaction():
        await other.do("select from perdure.runs where id = %(run)s for no key update", run=run)

        assert await waits.expire(stage.connection, wait) == {"run": None, "leg": None}

    assert (await waits.expire(stage.connection, wait))["leg"] == 2


async def test_due_waits_are_found_in_the_order_of_their_deadline(alone: Stage) -> None:
    later = (await asked(alone, seconds=-1.0))[2]
    earlier = (await asked(alone, seconds=-2.0))[2]
    await asked(alone, seconds=60.0)
    await asked(alone)

    assert await waits.due(alone.connection, 10) == [earlier, later]
    assert await waits.due(alone.connection, 1) == [earlier]


@pytest.mark.parametrize(
    ("settlement", "state", "skipped"),
    [
        (HAPPENED, "succeeded", False),
        (DID_NOT_HAPPEN, "failed", False),
        (SKIP, "outcome_unknown", True),
    ],
)
@pytest.mark.parametrize("ended", [False, True])
async def test_an_unknown_call_can_be_settled_at_any_time_and_starts_nothing(
    stage: Stage, settlement: str, state: str, skipped: bool, ended: bool
) -> None:
    run, fence, call = await stage.calling()
    await stage.lose(run, fence, call)
    if ended:
        await stage.end(run, fence, "failed", reason="model_error")
    leg = (await stage.run(run))["leg"]

    assert await settle(stage, call, settlement) == {"verdict": "settled", "run": run}

    found = await stage.call(call)
    assert (found["state"], found["skipped"], found["attempts"]) == (state, skipped, 1)
    assert (await stage.run(run))["leg"] == leg
    assert (await stage.told(run))[-1] == "call.reconciled"
    assert (await settle(stage, call, settlement))["verdict"] == "same"


async def test_a_settled_call_is_not_settled_otherwise(stage: Stage) -> None:
    run, fence, call = await stage.calling()
    await stage.lose(run, fence, call)
    await settle(stage, call, HAPPENED)

    assert (await settle(stage, call, DID_NOT_HAPPEN))["verdict"] == "other"
    assert (await stage.call(call))["state"] == "succeeded"


async def test_a_skipped_call_can_still_be_settled(stage: Stage) -> None:
    run, fence, call = await stage.calling()
    await stage.lose(run, fence, call)
    await settle(stage, call, SKIP)

    assert (await settle(stage, call, HAPPENED))["verdict"] == "settled"
    assert (await stage.call(call))["state"] == "succeeded"


async def test_a_call_that_a_wait_holds_is_settled_there(stage: Stage) -> None:
    _, call, wait = await lost(stage)

    assert (await settle(stage, call, HAPPENED))["verdict"] == "held"
    assert (await stage.wait(wait))["state"] == "open"


async def test_only_an_unknown_call_is_settled(stage: Stage) -> None:
    _, _, call = await stage.calling()

    assert (await settle(stage, call, HAPPENED))["verdict"] == "other"
    assert (await settle(stage, "call_none", HAPPENED))["verdict"] == "missing"
