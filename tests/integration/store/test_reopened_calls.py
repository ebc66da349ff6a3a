"""Calls that the end of their run cut short, once the run has been resumed."""

from typing import Any

import pytest
import pytest_asyncio

from app.services import restarts
from app.services.context import Caller, Services
from app.store import calls, waits
from tests.integration.store.family import paid, register
from tests.integration.store.stage import ALLOW, DENY, Stage, intent

ANN = Caller("ann")

pytestmark = pytest.mark.usefixtures("audited_by_hand")


@pytest_asyncio.fixture(autouse=True)
async def _agents(stage: Stage) -> None:
    await register(stage, "undoing")


async def die(stage: Stage, services: Services, run: str) -> int:
    """A dead letter, resumed and taken again; the new fence."""
    assert await stage.end(run, None, "dead_letter", reason="internal") == "ended"
    await restarts.resume(services, run, {}, ANN)
    return await stage.take(run)


async def test_what_had_not_begun_is_proposed_again(stage: Stage, services: Services) -> None:
    run, _, call = await stage.calling()

    fence = await die(stage, services, run)

    found = await stage.call(call)
    assert (found["state"], found["finished_at"], found["attempts"]) == ("proposed", None, 0)
    assert await stage.start(stage.place(run, fence, call)) == "ok"


async def test_what_was_asked_is_asked_anew(stage: Stage, services: Services) -> None:
    run, fence, call = await stage.calling()
    first = await stage.ask(run, fence, call)

    fence = await die(stage, services, run)

    assert (await stage.call(call))["state"] == "proposed"
    assert (await stage.resolve(first, ALLOW))["verdict"] == "closed"
    second = await stage.ask(run, fence, call)
    assert second != first
    assert (await stage.resolve(second, ALLOW))["verdict"] == "resolved"


async def test_what_was_allowed_is_not_asked_again(stage: Stage, services: Services) -> None:
    run, fence, call = await stage.calling()
    await stage.resolve(await stage.ask(run, fence, call), ALLOW)

    fence = await die(stage, services, run)

    assert (await stage.call(call))["state"] == "ready"
    assert (await calls.load(stage.connection, run, 1, 0))["allowed"]
    assert await stage.start(stage.place(run, fence, call)) == "ok"


async def test_what_was_denied_stays_denied(stage: Stage, services: Services) -> None:
    run, fence, call = await stage.calling()
    await stage.resolve(await stage.ask(run, fence, call), DENY)

    await die(stage, services, run)

    assert (await stage.call(call))["state"] == "denied"


@pytest.mark.parametrize("replay", ["read_only", "transactional"])
async def test_what_had_failed_without_an_effect_runs_again(
    stage: Stage, services: Services, replay: str
) -> None:
    run, fence, call = await stage.calling()
    at = stage.place(run, fence, call)
    await stage.hold(at, "timer", intent(replay), seconds=60.0, attempt_ended="raised")

    fence = await die(stage, services, run)

    assert (await stage.call(call))["state"] == "ready"
    again = stage.place(run, fence, call, 2)
    assert await stage.finish(again, what=intent(replay)) == "ok"
    history = (await stage.call(call))["history"]
    assert [each["outcome"] for each in history] == ["raised", "succeeded"]


@pytest.mark.parametrize("replay", ["idempotent", "at_most_once"])
async def test_what_may_have_happened_stays_unknown(
    stage: Stage, services: Services, replay: str
) -> None:
    run, fence, call = await stage.calling()
    at, what = stage.place(run, fence, call), intent(replay)
    await stage.start(at, what)
    await stage.hold(at, "timer", what, seconds=60.0, attempt_ended="raised")

    fence = await die(stage, services, run)

    assert (await stage.call(call))["state"] == "outcome_unknown"
    assert await stage.start(stage.place(run, fence, call, 2), what) == "moved"


@pytest.mark.parametrize("kind", ["input", "external", "timer"])
async def test_what_was_waited_for_is_waited_for_again(
    stage: Stage, services: Services, kind: str
) -> None:
    run, fence, call = await stage.calling()
    more: dict[str, Any] = {"state": "waiting", "seconds": -1.0}
    what = intent("read_only")
    await stage.hold(stage.place(run, fence, call), kind, what, **more)
    first = await stage.open_wait(call)

    fence = await die(stage, services, run)

    assert (await stage.call(call))["state"] == "ready"
    assert await stage.hold(stage.place(run, fence, call, 2), kind, what, **more) == "held"
    second = await stage.open_wait(call)
    assert second != first
    assert (await waits.expire(stage.connection, second))["run"] == run
    ended = "succeeded" if kind == "timer" else "expired"
    assert (await stage.call(call))["state"] == ended


async def test_calls_that_had_ended_are_left_alone(stage: Stage, services: Services) -> None:
    run = await stage.submit()
    fence = await stage.take(run)
    done = [
        *await paid(stage, run, fence, 1, "pay"),
        *await paid(stage, run, fence, 2, "pay"),
    ]
    before = [await stage.call(call) for call in done]

    await die(stage, services, run)

    assert [await stage.call(call) for call in done] == before


async def test_a_call_that_a_body_gave_up_in_an_earlier_turn_is_not_reopened(
    stage: Stage, services: Services
) -> None:
    run = await stage.submit()
    fence = await stage.take(run)
    (call,) = await stage.turn(run, fence, 1, "pay")
    await stage.finish(stage.place(run, fence, call), "cancelled", intent("read_only"))
    await paid(stage, run, fence, 2, "pay")

    await die(stage, services, run)

    assert (await stage.call(call))["state"] == "cancelled"


async def test_a_run_that_was_undoing_goes_on_undoing(stage: Stage, services: Services) -> None:
    run = await stage.submit(agent="undoing")
    fence = await stage.take(run)
    await paid(stage, run, fence, 1, "pay")
    await stage.ask_cancel(run, compensate=True)

    fence = await die(stage, services, run)

    found = await stage.run(run)
    assert (found["status"], found["compensate"]) == ("cancelling", True)
    assert await stage.end(run, fence, "cancelled") == "acting"
    undo = await calls.next_compensation(stage.connection, run, fence)
    assert (undo["turn"], undo["index"]) == (2, 0)


async def test_a_cancel_that_came_to_nothing_is_forgotten(stage: Stage, services: Services) -> None:
    """Whoever resumes a dead letter wants it to go on."""
    run = await stage.submit()
    await stage.take(run)
    await stage.ask_cancel(run)

    await die(stage, services, run)

    assert (await stage.run(run))["status"] == "running"
