"""Undoing what succeeded: latest first, each call at most once, by calls of the ledger."""

import pytest
import pytest_asyncio

from app.domain.canonical import canonical_json
from app.store import calls, runs, waits
from app.store.db import Row
from tests.integration.store.family import paid, register, undo_of
from tests.integration.store.stage import HAPPENED, Stage, intent

pytestmark = pytest.mark.usefixtures("audited_by_hand")


@pytest_asyncio.fixture(autouse=True)
async def _agent(stage: Stage) -> None:
    await register(stage, "undoing")


async def next_undo(stage: Stage, run: str, fence: int) -> Row:
    return await calls.next_compensation(stage.connection, run, fence)


async def has_done(stage: Stage, *tools: str, ask: bool = True) -> tuple[str, int, list[str]]:
    """A run that is being cancelled and has to undo what these tools did."""
    run = await stage.submit(agent="undoing")
    fence = await stage.take(run)
    made = await paid(stage, run, fence, 1, *tools)
    if ask:
        await stage.ask_cancel(run, compensate=True)
    return run, fence, made


async def undo(stage: Stage, run: str, fence: int, state: str = "succeeded") -> str:
    """Makes and runs the next undo; the call that it undid."""
    found = await next_undo(stage, run, fence)
    call = undo_of(run, found["turn"], found["index"])
    at = stage.place(run, fence, call)
    assert await stage.start(at) == "ok"
    assert await stage.finish(at, state) == "ok"
    return str((await stage.call(call))["compensates"])


async def compensation(stage: Stage, run: str) -> object:
    return (await runs.look(stage.connection, run))["compensation"]


async def test_what_was_done_last_is_undone_first(stage: Stage) -> None:
    run = await stage.submit(agent="undoing")
    fence = await stage.take(run)
    first = await paid(stage, run, fence, 1, "pay", "pay")
    second = await paid(stage, run, fence, 2, "pay")
    await stage.ask_cancel(run, compensate=True)

    undone = [await undo(stage, run, fence) for _ in range(3)]

    assert undone == [*second, *reversed(first)]
    assert (await next_undo(stage, run, fence))["turn"] is None
    assert await compensation(stage, run) is None
    assert await stage.end(run, fence, "cancelled") == "ended"


async def test_an_undo_stands_after_the_last_turn_with_the_arguments_of_what_it_undoes(
    stage: Stage,
) -> None:
    run, fence, (call,) = await has_done(stage, "pay")

    found = await next_undo(stage, run, fence)

    assert found == {"verdict": "ok", "turn": 2, "index": 0}
    made, done = await stage.call(undo_of(run, 2)), await stage.call(call)
    same = ("tool", "arguments", "arguments_hash", "replay", "root", "session")
    assert {name: made[name] for name in same} == {name: done[name] for name in same}
    assert (made["state"], made["attempts"], made["approval"]) == ("ready", 0, "never")
    loaded = await calls.load(stage.connection, run, 2, 0)
    assert (loaded["done_turn"], loaded["done_index"], loaded["done_result"]) == (
        1,
        0,
        {"id": call},
    )


async def test_the_next_undo_asked_for_twice_is_the_same(stage: Stage) -> None:
    run, fence, _ = await has_done(stage, "pay", "pay")

    assert await next_undo(stage, run, fence) == await next_undo(stage, run, fence)
    assert (await stage.call(undo_of(run, 2)))["state"] == "ready"


async def test_an_old_execution_undoes_nothing(stage: Stage) -> None:
    run, fence, _ = await has_done(stage, "pay")
    await stage.take(run, "w2")

    assert (await next_undo(stage, run, fence))["verdict"] == "fenced"
    assert await compensation(stage, run) == "todo"


@pytest.mark.parametrize("state", ["failed", "outcome_unknown", "cancelled"])
async def test_only_what_succeeded_is_undone(stage: Stage, state: str) -> None:
    run = await stage.submit(agent="undoing")
    fence = await stage.take(run)
    (call,) = await stage.turn(run, fence, 1, "pay")
    at = stage.place(run, fence, call)
    await stage.start(at)
    await stage.finish(at, state)
    await stage.ask_cancel(run, compensate=True)

    assert await compensation(stage, run) is None
    assert (await next_undo(stage, run, fence))["turn"] is None


async def test_a_tool_that_cannot_be_undone_is_left_as_it_is(stage: Stage) -> None:
    run, fence, (_, pay) = await has_done(stage, "look", "pay")

    assert await undo(stage, run, fence) == pay
    assert (await next_undo(stage, run, fence))["turn"] is None


async def test_nothing_is_undone_unless_that_was_asked_for(stage: Stage) -> None:
    run, fence, _ = await has_done(stage, "pay", ask=False)
    await stage.ask_cancel(run)

    assert await compensation(stage, run) is None
    assert await stage.end(run, fence, "cancelled") == "ended"


async def test_that_it_is_to_be_undone_can_still_be_asked_for_while_a_run_is_being_cancelled(
    stage: Stage,
) -> None:
    run, fence, _ = await has_done(stage, "pay", ask=False)
    await stage.ask_cancel(run)
    await stage.ask_cancel(run, compensate=True)
    await stage.ask_cancel(run)

    assert (await stage.run(run))["compensate"]
    assert await stage.end(run, fence, "cancelled") == "acting"


@pytest.mark.parametrize("fence", ["own", None])
async def test_a_run_does_not_end_before_it_has_undone_what_it_did(
    stage: Stage, fence: str | None
) -> None:
    run, own, _ = await has_done(stage, "pay")
    ends = own if fence else None

    assert await stage.end(run, ends, "cancelled") == "acting"
    await next_undo(stage, run, own)
    assert await stage.end(run, ends, "cancelled") == "acting"
    at = stage.place(run, own, undo_of(run, 2))
    await stage.start(at)
    assert await stage.end(run, ends, "cancelled") == "acting"
    await stage.finish(at)
    assert await stage.end(run, ends, "cancelled") == "ended"


@pytest.mark.parametrize("state", ["failed", "outcome_unknown"])
async def test_an_undo_that_did_not_succeed_is_told_and_not_tried_anew(
    stage: Stage, state: str
) -> None:
    run, fence, (call,) = await has_done(stage, "pay")

    assert await undo(stage, run, fence, state) == call

    assert (await stage.told(run))[-2:] == ["compensation.started", "compensation.failed"]
    assert (await next_undo(stage, run, fence))["turn"] is None
    assert await stage.end(run, fence, "cancelled") == "ended"


async def test_an_undo_is_told_under_names_of_its_own(stage: Stage) -> None:
    run, fence, _ = await has_done(stage, "pay")
    await undo(stage, run, fence)

    told = await stage.told(run)
    assert told[-3:] == ["run.cancelling", "compensation.started", "compensation.succeeded"]
    assert told.count("call.started") == 1


async def held_undo(stage: Stage, outcome: str = "raised") -> tuple[str, int, str]:
    """Parked: the undo's first attempt has ended, and its next one is not due."""
    run, fence, _ = await has_done(stage, "pay")
    await next_undo(stage, run, fence)
    call = undo_of(run, 2)
    at = stage.place(run, fence, call)
    what = intent("idempotent")
    assert await stage.start(at, what) == "ok"
    held = await stage.hold(at, "timer", what, seconds=60.0, attempt_ended=outcome)
    assert held == "held"
    assert await compensation(stage, run) == "held"
    assert await stage.park(run, fence) == "parked"
    return run, fence, call


async def test_a_run_parks_until_the_next_attempt_at_an_undo(stage: Stage) -> None:
    run, _, call = await held_undo(stage)
    found = await stage.run(run)
    assert (found["status"], found["parked"], found["leg"]) == ("cancelling", True, 2)
    wait = await stage.open_wait(call)
    await stage.do(
        "update perdure.waits set deadline = clock_timestamp() where id = %(wait)s", wait=wait
    )

    assert await waits.expire(stage.connection, wait) == {"run": run, "leg": 2}

    assert (await stage.run(run))["status"] == "cancelling"
    fence = await stage.take(run)
    assert await next_undo(stage, run, fence) == {"verdict": "ok", "turn": 2, "index": 0}
    assert await stage.park(run, fence) == "again"


async def test_a_run_that_has_only_to_undo_does_not_park(stage: Stage) -> None:
    run, fence, _ = await has_done(stage, "pay")
    assert await stage.park(run, fence) == "again"
    await next_undo(stage, run, fence)
    assert await stage.park(run, fence) == "again"


async def test_a_second_cancel_leaves_the_pause_before_the_next_attempt_alone(stage: Stage) -> None:
    run, _, call = await held_undo(stage)
    wait = await stage.open_wait(call)

    assert await stage.end(run, None, "cancelled") == "acting"
    assert (await stage.wait(wait))["state"] == "open"


async def test_an_undo_starts_though_its_run_is_being_cancelled_and_nothing_else_does(
    stage: Stage,
) -> None:
    run, fence, _ = await has_done(stage, "pay", ask=False)
    (other,) = await stage.turn(run, fence, 2, "pay")
    await stage.ask_cancel(run, compensate=True)
    found = await next_undo(stage, run, fence)
    assert (found["turn"], found["index"]) == (3, 0)

    assert await stage.start(stage.place(run, fence, other)) == "cancel"
    assert await stage.start(stage.place(run, fence, undo_of(run, 3))) == "ok"


async def test_what_turns_out_to_have_happened_before_the_end_is_undone_too(stage: Stage) -> None:
    run = await stage.submit(agent="undoing")
    fence = await stage.take(run)
    (call,) = await stage.turn(run, fence, 1, "pay")
    await stage.lose(run, fence, call)
    await stage.ask_cancel(run, compensate=True)
    assert await compensation(stage, run) is None

    await calls.settle(stage.connection, call, HAPPENED, "ann")

    assert await undo(stage, run, fence) == call


async def test_an_undo_whose_outcome_is_unknown_can_be_settled(stage: Stage) -> None:
    run, fence, _ = await has_done(stage, "pay")
    await undo(stage, run, fence, "outcome_unknown")
    await stage.end(run, fence, "cancelled")
    happened = canonical_json({"outcome": "happened", "result": None})

    settled = await calls.settle(stage.connection, undo_of(run, 2), happened, "ann")

    assert settled["verdict"] == "settled"
    assert (await stage.call(undo_of(run, 2)))["state"] == "succeeded"


async def test_an_undo_that_was_begun_and_lost_is_found_by_the_next_execution(stage: Stage) -> None:
    run, fence, _ = await has_done(stage, "pay")
    await next_undo(stage, run, fence)
    await stage.start(stage.place(run, fence, undo_of(run, 2)))

    second = await stage.take(run, "w2")

    assert await next_undo(stage, run, second) == {"verdict": "ok", "turn": 2, "index": 0}
    assert await compensation(stage, run) == "todo"
    again = stage.place(run, second, undo_of(run, 2), 2, "w2")
    assert await stage.start(again, intent("idempotent")) == "ok"
    history = (await stage.call(undo_of(run, 2)))["history"]
    assert [each["outcome"] for each in history] == ["interrupted", None]
