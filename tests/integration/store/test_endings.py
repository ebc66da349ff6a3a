"""How a run ends: once, with nothing left open, and never over what may still be acting."""

from typing import Any

import pytest

from app.domain.ids import new_message_id, new_session_id
from app.store import messages, sessions
from tests.integration.store.stage import Stage, intent


async def say(stage: Stage, run: str, text: str = "wait") -> str:
    return str((await messages.insert(stage.connection, new_message_id(), run, text))["id"])


async def test_an_ending_is_one_event_and_the_end_of_the_leg(stage: Stage) -> None:
    run = await stage.submit()
    fence = await stage.take(run)

    assert await stage.end(run, fence, "succeeded", output={"text": "Hi."}) == "ended"

    found = await stage.run(run)
    assert (found["status"], found["output"], found["leg"]) == ("succeeded", {"text": "Hi."}, 2)
    assert found["fence"] > fence
    assert (found["owner"], found["held"], found["active_since"]) == (None, False, None)
    assert found["finished_at"] is not None
    assert await stage.told(run) == ["run.queued", "run.started", "run.succeeded"]


async def test_an_ending_sent_twice_happens_once(stage: Stage) -> None:
    run = await stage.submit()
    fence = await stage.take(run)
    await stage.end(run, fence, "succeeded")

    assert await stage.end(run, fence, "succeeded") == "over"
    assert await stage.end(run, None, "cancelled") == "over"
    assert (await stage.told(run)).count("run.succeeded") == 1


async def test_an_ending_under_an_old_fence_is_refused(stage: Stage) -> None:
    run = await stage.submit()
    fence = await stage.take(run)
    await stage.take(run, "w2")

    assert await stage.end(run, fence, "succeeded") == "fenced"
    assert (await stage.run(run))["finished_at"] is None


async def test_a_leg_cancels_only_what_it_was_asked_to_cancel(stage: Stage) -> None:
    run = await stage.submit()
    fence = await stage.take(run)

    assert await stage.end(run, fence, "cancelled") == "not_cancelled"
    assert (await stage.run(run))["status"] == "running"


@pytest.mark.parametrize("status", ["succeeded", "failed"])
async def test_a_run_that_is_being_cancelled_ends_as_cancelled(stage: Stage, status: str) -> None:
    run = await stage.submit()
    fence = await stage.take(run)
    await stage.ask_cancel(run)

    assert await stage.end(run, fence, status) == "cancel"
    assert await stage.end(run, fence, "cancelled") == "ended"


async def test_a_run_does_not_succeed_over_a_message_it_has_not_seen(stage: Stage) -> None:
    run = await stage.submit()
    fence = await stage.take(run)
    await say(stage, run)

    assert await stage.end(run, fence, "succeeded") == "messages"
    assert (await stage.run(run))["status"] == "running"


@pytest.mark.parametrize("status", ["failed", "cancelled"])
async def test_messages_that_a_run_did_not_live_to_see_are_told_as_undelivered(
    stage: Stage, status: str
) -> None:
    run = await stage.submit()
    fence = await stage.take(run)
    assert await stage.begin(run, fence) == "call"
    message = await say(stage, run)
    assert await stage.begin(run, fence) == "call"  # the turn has it, but never delivered it

    if status == "cancelled":
        assert await stage.cancel(run, fence) == "ended"
    else:
        assert await stage.end(run, fence, status, reason="model_error") == "ended"

    found = await stage.one("select * from perdure.messages where id = %(id)s", id=message)
    assert (found["state"], found["turn"]) == ("undelivered", None)
    assert (await stage.told(run))[-2:] == ["message.undelivered", f"run.{status}"]


@pytest.mark.parametrize("fence", ["own", None])
@pytest.mark.parametrize("status", ["failed", "cancelled"])
async def test_a_run_does_not_end_while_a_call_may_be_acting(
    stage: Stage, status: str, fence: str | None
) -> None:
    run, own, call = await stage.calling()
    assert await stage.start(stage.place(run, own, call)) == "ok"

    if status == "cancelled":
        assert await stage.cancel(run, own if fence else None) == "acting"
    else:
        assert await stage.end(run, own if fence else None, status) == "acting"
    assert (await stage.call(call))["state"] == "started"


@pytest.mark.parametrize("fence", ["own", None])
async def test_what_has_not_begun_is_cancelled_with_the_run(
    stage: Stage, fence: str | None
) -> None:
    run, own, call = await stage.calling("pay", "pay")
    wait = await stage.ask(run, own, call)

    assert await stage.cancel(run, own if fence else None) == "ended"

    assert (await stage.wait(wait))["state"] == "cancelled"
    states = [(await stage.call(call[:-1] + index))["state"] for index in "01"]
    assert states == ["cancelled", "cancelled"]
    told = await stage.told(run)
    assert told[-4:] == ["wait.cancelled", "call.cancelled", "call.cancelled", "run.cancelled"]


async def between_attempts(stage: Stage, replay: str, outcome: str) -> tuple[str, int, str]:
    """A call whose first attempt has ended without a result and whose next one is not due."""
    run, fence, call = await stage.calling()
    at, what = stage.place(run, fence, call), intent(replay)
    if replay in ("idempotent", "at_most_once"):
        assert await stage.start(at, what) == "ok"
    assert await stage.hold(at, "timer", what, seconds=60.0, attempt_ended=outcome) == "held"
    return run, fence, call


@pytest.mark.parametrize("replay", ["idempotent", "at_most_once"])
@pytest.mark.parametrize("outcome", ["raised", "timed_out", "still_running", "interrupted"])
async def test_an_attempt_that_may_have_had_its_effect_is_unknown_when_the_run_is_cancelled(
    stage: Stage, replay: str, outcome: str
) -> None:
    """Running it again under its key would have been right; calling it "not run" is not."""
    run, fence, call = await between_attempts(stage, replay, outcome)

    assert await stage.cancel(run, fence) == "ended"

    found = await stage.call(call)
    assert (found["state"], found["is_error"]) == ("outcome_unknown", True)
    assert "call.outcome_unknown" in await stage.told(run)


@pytest.mark.parametrize(
    ("replay", "outcome"),
    [
        ("read_only", "raised"),
        ("transactional", "raised"),
        ("idempotent", "not_called"),
        ("at_most_once", "did_not_happen"),
        ("idempotent", "did_not_happen"),
    ],
)
async def test_an_attempt_without_an_effect_is_cancelled_with_the_run(
    stage: Stage, replay: str, outcome: str
) -> None:
    run, fence, call = await between_attempts(stage, replay, outcome)

    assert await stage.cancel(run, fence) == "ended"
    assert (await stage.call(call))["state"] == "cancelled"


@pytest.mark.parametrize(
    ("reason", "said"),
    [("limit_turns", True), ("limit_cost", True), ("deadline", True), ("model_error", False)],
)
async def test_a_reached_limit_is_an_event_of_its_own(
    stage: Stage, reason: str, said: bool
) -> None:
    run = await stage.submit()
    fence = await stage.take(run)
    error = {"type": reason, "detail": "Used up."}

    await stage.end(run, fence, "failed", reason=reason, error=error)

    assert ("limit.reached" in await stage.told(run)) is said
    found = await stage.run(run)
    assert (found["reason"], found["error"]) == (reason, error)


@pytest.mark.parametrize("shared", ["session", "target"])
async def test_the_next_run_is_let_go_when_the_holder_has_ended(stage: Stage, shared: str) -> None:
    work: dict[str, Any] = {"session": new_session_id(), "target": new_session_id()}
    holder = await stage.submit(**work)
    second = await stage.submit(held=True, **{shared: work[shared]})
    third = await stage.submit(held=True, **{shared: work[shared]})
    assert await sessions.release_held(stage.connection, **work) == []

    await stage.end(holder, None, "cancelled")

    freed = await sessions.release_held(stage.connection, **work)
    assert freed == [{"run": second, "leg": 1}]
    assert [(await stage.run(run))["held"] for run in (second, third)] == [False, True]
    assert await sessions.release_held(stage.connection, **work) == []


async def test_a_run_held_by_a_session_and_a_target_waits_for_both(stage: Stage) -> None:
    session, target = new_session_id(), new_session_id()
    in_session = await stage.submit(session=session)
    on_target = await stage.submit(target=target)
    both = await stage.submit(session=session, target=target, held=True)

    await stage.end(in_session, None, "cancelled")
    assert await sessions.release_held(stage.connection, session, None) == []

    await stage.end(on_target, None, "cancelled")
    work = (await stage.run(on_target))["session"]
    freed = await sessions.release_held(stage.connection, work, target)
    assert [each["run"] for each in freed] == [both]


async def test_a_held_run_that_was_cancelled_is_not_let_go(stage: Stage) -> None:
    session = new_session_id()
    holder = await stage.submit(session=session)
    held = await stage.submit(session=session, held=True)
    await stage.end(held, None, "cancelled")
    await stage.end(holder, None, "cancelled")

    assert await sessions.release_held(stage.connection, session, None) == []
