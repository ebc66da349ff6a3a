"""What the clock does: sleeps end; questions are said again, and expire."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from app.domain.canonical import canonical_json
from app.store import waits
from app.store.db import rows
from tests.integration.store.stage import Stage, intent

BLUE = canonical_json({"text": "blue"})
pytestmark = pytest.mark.usefixtures("audited_by_hand")


async def held(
    stage: Stage, kind: str, replay: str = "read_only", **more: Any
) -> tuple[str, int, str, str]:
    """A call that is a wait: the run, its fence, the call, the wait."""
    run, fence, call = await stage.calling("ask")
    at = stage.place(run, fence, call)
    assert await stage.hold(at, kind, intent(replay), state="waiting", **more) == "held"
    return run, fence, call, await stage.open_wait(call)


async def asleep(stage: Stage, **more: Any) -> tuple[str, str, str]:
    run, fence, call, wait = await held(stage, "timer", **more)
    assert await stage.park(run, fence) == "parked"
    return run, call, wait


async def test_a_sleep_is_an_attempt_that_the_clock_ends(stage: Stage) -> None:
    run, call, wait = await asleep(stage, seconds=-1.0)

    assert await waits.expire(stage.connection, wait) == {"run": run, "leg": 2}

    found = await stage.call(call)
    assert (found["state"], found["is_error"], list(found["result"])) == (
        "succeeded",
        False,
        ["woken_at"],
    )
    assert [each["outcome"] for each in found["history"]] == ["succeeded"]
    assert (await stage.told(run))[-2:] == ["wait.resolved", "call.succeeded"]
    assert await waits.expire(stage.connection, wait) == {"run": None, "leg": None}


async def test_a_sleep_until_a_moment_is_due_then(stage: Stage) -> None:
    now = (await stage.one("select clock_timestamp() as at"))["at"]
    _, _, wait = await asleep(stage, until=now + timedelta(hours=1), seconds=5.0)

    found = await stage.wait(wait)
    assert (found["deadline"], found["remind_at"]) == (now + timedelta(hours=1), None)
    assert await waits.expire(stage.connection, wait) == {"run": None, "leg": None}


async def test_a_sleep_asked_for_twice_is_one(stage: Stage) -> None:
    run, fence, call, wait = await held(stage, "timer", seconds=60.0)
    at = stage.place(run, fence, call)

    again = await stage.hold(at, "timer", intent("read_only"), state="waiting", seconds=60.0)

    assert (again, await stage.open_wait(call)) == ("ok", wait)


async def test_a_sleep_that_is_over_is_not_begun_again(stage: Stage) -> None:
    run, fence, call, wait = await held(stage, "timer", seconds=-1.0)
    await waits.expire(stage.connection, wait)

    at = stage.place(run, fence, call)
    assert await stage.hold(at, "timer", intent("read_only"), state="waiting") == "ok"
    assert (await stage.call(call))["state"] == "succeeded"


@pytest.mark.parametrize("kind", ["timer", "input", "external", "approval"])
async def test_nothing_is_asked_in_a_run_that_is_being_cancelled(stage: Stage, kind: str) -> None:
    run, fence, call = await stage.calling("ask")
    await stage.ask_cancel(run)

    at = stage.place(run, fence, call, 0 if kind == "approval" else 1)
    assert await stage.hold(at, kind, state="waiting", seconds=1.0) == "cancel"
    assert (await stage.call(call))["state"] == "proposed"
    assert (
        await rows(stage.connection, "select from perdure.waits where call = %(c)s", c=call) == []
    )


async def test_an_answer_is_the_result_of_the_call_that_asked(stage: Stage) -> None:
    run, fence, call, wait = await held(stage, "input")
    assert await stage.park(run, fence) == "parked"

    assert (await stage.resolve(wait, BLUE))["leg"] == 2

    found = await stage.call(call)
    assert (found["state"], found["result"], found["is_error"]) == ("succeeded", "blue", False)
    assert [each["outcome"] for each in found["history"]] == ["succeeded"]
    assert (await stage.told(run))[-2:] == ["wait.resolved", "call.succeeded"]


async def test_the_first_answer_holds(stage: Stage) -> None:
    _, _, call, wait = await held(stage, "input")
    await stage.resolve(wait, BLUE)

    assert (await stage.resolve(wait, BLUE, by="bob"))["verdict"] == "same"
    red = canonical_json({"text": "red"})
    assert (await stage.resolve(wait, red))["verdict"] == "other"
    assert (await stage.call(call))["result"] == "blue"


@pytest.mark.parametrize("kind", ["input", "external", "approval"])
@pytest.mark.parametrize("swept", [True, False])
async def test_a_question_that_nobody_answered_expires_with_its_call(
    stage: Stage, kind: str, swept: bool
) -> None:
    run, fence, call, wait = await held(stage, kind, seconds=-1.0)
    assert await stage.park(run, fence) == "parked"

    if swept:
        assert await waits.expire(stage.connection, wait) == {"run": run, "leg": 2}
    said = canonical_json({"text": "x", "decision": "allow", "result": 1})
    answer = await stage.resolve(wait, said)

    assert (answer["verdict"], answer["leg"]) == ("closed", None if swept else 2)
    found = await stage.call(call)
    assert (found["state"], found["is_error"]) == ("expired", True)
    assert found["result"] == {"error": "expired", "detail": kind}
    assert (await stage.told(run))[-2:] == ["wait.expired", "call.expired"]


async def reminder(stage: Stage, wait: str) -> float:
    """At which part of its time a question is said again."""
    found = await stage.one(
        """select extract(epoch from remind_at - created_at)::float
                  / extract(epoch from deadline - created_at)::float as part
           from perdure.waits where id = %(wait)s""",
        wait=wait,
    )
    return float(found["part"])


@pytest.mark.parametrize("kind", ["approval", "input", "external"])
async def test_a_question_is_said_again_once_when_most_of_its_time_is_over(
    stage: Stage, kind: str
) -> None:
    run, _, _, wait = await held(stage, kind, seconds=3600.0)
    assert await reminder(stage, wait) == pytest.approx(0.75, abs=0.01)
    assert await waits.remind(stage.connection, wait) is None
    await let_time_pass(stage, wait)
    assert wait in await waits.to_remind(stage.connection, 1000)

    assert await waits.remind(stage.connection, wait) == run

    assert (await stage.told(run))[-1] == "wait.reminder"
    assert await waits.remind(stage.connection, wait) is None
    assert wait not in await waits.to_remind(stage.connection, 1000)
    assert (await stage.told(run)).count("wait.reminder") == 1


async def let_time_pass(stage: Stage, wait: str) -> None:
    await stage.do(
        "update perdure.waits set remind_at = clock_timestamp() where id = %(wait)s", wait=wait
    )


async def test_a_question_without_a_deadline_is_said_once(stage: Stage) -> None:
    _, _, _, wait = await held(stage, "input")

    assert (await stage.wait(wait))["remind_at"] is None


async def test_an_answered_question_is_not_said_again(stage: Stage) -> None:
    run, _, _, wait = await held(stage, "input", seconds=3600.0)
    await let_time_pass(stage, wait)
    await stage.resolve(wait, BLUE)

    assert await waits.remind(stage.connection, wait) is None
    assert "wait.reminder" not in await stage.told(run)


async def test_a_reminder_passes_over_a_run_that_somebody_holds(stage: Stage, other: Stage) -> None:
    run, _, _, wait = await held(stage, "input", seconds=3600.0)
    await let_time_pass(stage, wait)
    async with other.connection.transaction():
        await other.do("select from perdure.runs where id = %(run)s for no key update", run=run)
        assert await waits.remind(stage.connection, wait) is None

    assert await waits.remind(stage.connection, wait) == run


async def test_many_that_remind_at_once_say_it_once(stage: Stage, other: Stage) -> None:
    run, _, _, wait = await held(stage, "input", seconds=3600.0)
    await let_time_pass(stage, wait)

    said = await asyncio.gather(
        *(waits.remind(by.connection, wait) for by in (stage, other, stage, other))
    )

    assert run in said
    assert (await stage.told(run)).count("wait.reminder") == 1
