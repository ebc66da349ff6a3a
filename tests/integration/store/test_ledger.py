"""The ledger of tool calls: intent before, outcome after, each written once under its fence."""

import pytest
from psycopg.errors import RaiseException

from app.store import calls
from tests.integration.store.stage import ALLOW, ARGUMENTS, Stage, intent

WRITES = ["start", "finish", "hold"]


async def write(stage: Stage, which: str, run: str, fence: int, call: str) -> str:
    at = stage.place(run, fence, call)
    match which:
        case "start":
            return await stage.start(at)
        case "finish":
            return await stage.finish(at)
        case _:
            return await stage.hold(stage.place(run, fence, call, 0), "approval")


async def test_the_intent_is_recorded_before_the_effect(stage: Stage) -> None:
    run, fence, call = await stage.calling()

    assert await stage.start(stage.place(run, fence, call), intent("idempotent")) == "ok"

    found = await stage.call(call)
    assert (found["state"], found["attempts"], found["fence"]) == ("started", 1, fence)
    assert (found["arguments"], found["replay"], found["worker"]) == (ARGUMENTS, "idempotent", "w1")
    assert (await stage.told(run))[-1] == "call.started"


async def test_an_intent_sent_twice_is_one_attempt(stage: Stage) -> None:
    run, fence, call = await stage.calling()
    await stage.start(stage.place(run, fence, call))

    assert await stage.start(stage.place(run, fence, call)) == "ok"
    assert len((await stage.call(call))["history"]) == 1
    assert (await stage.told(run)).count("call.started") == 1


@pytest.mark.parametrize("which", WRITES)
async def test_a_write_under_an_old_fence_is_refused_and_changes_nothing(
    stage: Stage, which: str
) -> None:
    run, fence, call = await stage.calling()
    await stage.take(run, "w2")
    before, told = await stage.call(call), await stage.told(run)

    assert await write(stage, which, run, fence, call) == "fenced"
    assert await stage.call(call) == before
    assert await stage.told(run) == told


@pytest.mark.parametrize("which", WRITES)
async def test_nothing_is_written_for_a_run_that_has_ended(stage: Stage, which: str) -> None:
    run, fence, call = await stage.calling()
    assert await stage.cancel(run, fence) == "ended"

    assert await write(stage, which, run, fence, call) == "fenced"
    assert (await stage.call(call))["state"] == "cancelled"


async def test_no_call_begins_in_a_cancelled_run(stage: Stage) -> None:
    run, fence, call = await stage.calling()
    await stage.ask_cancel(run)

    assert await stage.start(stage.place(run, fence, call)) == "cancel"
    assert (await stage.call(call))["state"] == "proposed"


async def test_what_a_call_did_is_kept_though_its_run_is_being_cancelled(stage: Stage) -> None:
    run, fence, call = await stage.calling()
    await stage.start(stage.place(run, fence, call))
    await stage.ask_cancel(run)

    assert await stage.finish(stage.place(run, fence, call)) == "ok"
    assert (await stage.call(call))["state"] == "succeeded"


@pytest.mark.parametrize("attempt", [1, 3])
async def test_an_attempt_begins_only_after_the_one_before(stage: Stage, attempt: int) -> None:
    run, fence, call = await stage.calling()
    await stage.start(stage.place(run, fence, call))
    second = await stage.take(run, "w2")

    assert await stage.start(stage.place(run, second, call, attempt, "w2")) == "moved"


async def test_the_next_attempt_closes_the_one_that_a_crash_interrupted(stage: Stage) -> None:
    run, fence, call = await stage.calling()
    await stage.start(stage.place(run, fence, call), intent("idempotent"))
    second = await stage.take(run, "w2")

    at = stage.place(run, second, call, 2, "w2")
    assert await stage.start(at, intent("idempotent")) == "ok"

    history = (await stage.call(call))["history"]
    assert [(each["worker"], each["outcome"]) for each in history] == [
        ("w1", "interrupted"),
        ("w2", None),
    ]
    assert history[0]["ended_at"] is not None


async def test_a_call_that_has_ended_does_not_begin_again(stage: Stage) -> None:
    run, fence, call = await stage.calling()
    await stage.start(stage.place(run, fence, call))
    await stage.finish(stage.place(run, fence, call))

    assert await stage.start(stage.place(run, fence, call, 2)) == "moved"


async def test_an_outcome_is_stored_once(stage: Stage) -> None:
    run, fence, call = await stage.calling()
    at = stage.place(run, fence, call)
    await stage.start(at)

    assert await stage.finish(at, result={"id": 7}) == "ok"
    assert await stage.finish(at, "failed", result={"error": "late"}) == "done"

    found = await stage.call(call)
    assert (found["state"], found["result"], found["is_error"]) == ("succeeded", {"id": 7}, False)
    assert [each["outcome"] for each in found["history"]] == ["succeeded"]
    assert (await stage.told(run))[-2:] == ["call.started", "call.succeeded"]


async def test_a_call_without_an_intent_begins_and_ends_in_one_write(stage: Stage) -> None:
    run, fence, call = await stage.calling()

    await stage.finish(stage.place(run, fence, call), what=intent("read_only"))

    assert (await stage.call(call))["attempts"] == 1
    assert (await stage.told(run))[-2:] == ["call.started", "call.succeeded"]


@pytest.mark.parametrize("replay", ["idempotent", "at_most_once"])
async def test_an_outcome_without_the_intent_that_it_needs_is_an_error(
    stage: Stage, replay: str
) -> None:
    run, fence, call = await stage.calling()

    with pytest.raises(RaiseException, match="without an intent"):
        await stage.finish(stage.place(run, fence, call), what=intent(replay))
    assert (await stage.call(call))["state"] == "proposed"


async def test_a_refused_call_never_began(stage: Stage) -> None:
    run, fence, call = await stage.calling()

    await stage.finish(stage.place(run, fence, call, 0), "failed")

    found = await stage.call(call)
    assert (found["attempts"], found["history"], found["started_at"]) == (0, [], None)
    assert (await stage.told(run))[-1:] == ["call.failed"]


async def test_a_found_outcome_is_told_as_reconciled(stage: Stage) -> None:
    run, fence, call = await stage.calling()
    await stage.start(stage.place(run, fence, call))
    second = await stage.take(run, "w2")

    await stage.finish(stage.place(run, second, call), outcome="reconciled")

    assert (await stage.told(run))[-2:] == ["call.reconciled", "call.succeeded"]


async def test_holding_sent_twice_asks_once(stage: Stage) -> None:
    run, fence, call = await stage.calling()
    wait = await stage.ask(run, fence, call)

    assert await stage.hold(stage.place(run, fence, call, 0), "approval") == "ok"
    assert await stage.open_wait(call) == wait
    assert (await stage.told(run)).count("wait.opened") == 1


async def test_an_answer_is_not_asked_for_again_when_the_question_is_sent_twice(
    stage: Stage,
) -> None:
    """The answer to the first sending was lost; a person was quicker than the second."""
    run, fence, call = await stage.calling()
    wait = await stage.ask(run, fence, call)
    await stage.resolve(wait, ALLOW)

    assert await stage.hold(stage.place(run, fence, call, 0), "approval") == "ok"
    assert (await stage.call(call))["state"] == "ready"
    assert (await stage.told(run)).count("wait.opened") == 1


@pytest.mark.parametrize("kind", ["timer", "outcome"])
async def test_the_end_of_an_attempt_sent_twice_is_held_once(stage: Stage, kind: str) -> None:
    run, fence, call = await stage.calling()
    at = stage.place(run, fence, call)
    await stage.start(at)
    assert await stage.hold(at, kind, seconds=0.0, attempt_ended="raised") == "held"
    await stage.do(
        "select * from perdure.expire_due((select id from perdure.waits where call = %(call)s))",
        call=call,
    )

    assert await stage.hold(at, kind, seconds=0.0, attempt_ended="raised") == "ok"
    assert (await stage.told(run)).count("wait.opened") == 1


async def test_a_superseded_approval_is_asked_anew(stage: Stage) -> None:
    run, fence, call = await stage.calling()
    first = await stage.ask(run, fence, call, evidence={"version": 1})
    await stage.resolve(first, ALLOW)

    second = await stage.ask(run, fence, call, evidence={"version": 2}, supersedes=first)

    assert second != first
    assert (await stage.wait(first))["state"] == "superseded"
    assert (await stage.call(call))["state"] == "waiting"
    loaded = await calls.load(stage.connection, run, 1, 0)
    assert (loaded["allowed"], loaded["held"]) == (None, True)


async def test_superseding_sent_again_leaves_a_later_decision_alone(stage: Stage) -> None:
    run, fence, call = await stage.calling()
    first = await stage.ask(run, fence, call, evidence={"version": 1})
    await stage.resolve(first, ALLOW)
    second = await stage.ask(run, fence, call, evidence={"version": 2}, supersedes=first)
    await stage.resolve(second, ALLOW)

    at = stage.place(run, fence, call, 0)
    assert await stage.hold(at, "approval", supersedes=first) == "ok"

    assert (await stage.wait(second))["state"] == "resolved"
    assert (await stage.told(run)).count("wait.superseded") == 1
