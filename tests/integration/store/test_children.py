"""Runs that others started: made once, waited for, and answered with what they came to."""

from typing import Any

import pytest

from app.domain.ids import new_run_id
from app.store import children, runs
from app.store.db import rows
from tests.integration.store.family import (
    RESULT,
    delegate,
    family,
    give_birth,
    line,
    settle,
)
from tests.integration.store.stage import Stage


async def children_of(stage: Stage, run: str) -> list[str]:
    found = await rows(
        stage.connection, "select id from perdure.runs where parent = %(run)s", run=run
    )
    return [each["id"] for each in found]


async def test_a_child_has_from_its_parent_what_it_does_not_say_itself(stage: Stage) -> None:
    due = await stage.one("select now() + interval '1 h' as at")
    found = await family(stage, deadline=due["at"], target=new_run_id())
    parent, child = await stage.run(found.id), await stage.run(found.child)

    same = ("root", "priority", "queue_key", "deadline", "trace_id", "agent_version")
    assert {name: child[name] for name in same} == {name: parent[name] for name in same}
    assert (child["parent"], child["delegated_by"]) == (found.id, found.call)
    assert (child["depth"], child["status"], child["leg"]) == (1, "queued", 1)
    assert child["session"] != parent["session"]
    assert child["target"] is None


async def test_depth_grows_with_each_generation_and_the_root_stays(stage: Stage) -> None:
    members = await line(stage, 4)

    found = [await stage.run(each) for each in members]
    assert [each["depth"] for each in found] == [0, 1, 2, 3]
    assert {each["root"] for each in found} == {members[0]}


async def test_the_call_waits_and_a_child_does_not_expire(stage: Stage) -> None:
    found = await family(stage)

    call = await stage.call(found.call)
    wait = await stage.wait(await stage.open_wait(found.call))
    assert (call["state"], call["attempts"], call["started_at"] is None) == ("waiting", 1, False)
    assert (wait["kind"], wait["deadline"], wait["remind_at"]) == ("child", None, None)
    assert (await stage.told(found.id))[-3:] == ["call.started", "wait.opened", "run.waiting"]


async def test_a_child_asked_for_twice_is_one(stage: Stage) -> None:
    """The answer to the first commit was lost, so the whole of it is sent again."""
    found = await family(stage, parked=False)
    told = await stage.told(found.id)

    assert await delegate(stage, found.id, found.fence, found.call) == "ok"

    assert await children_of(stage, found.id) == [found.child]
    assert await stage.told(found.id) == told


async def test_a_child_asked_for_again_after_it_has_ended_is_not_made_anew(stage: Stage) -> None:
    found = await family(stage, parked=False)
    await settle(stage, found.child, await stage.take(found.child, "w2"))

    assert await delegate(stage, found.id, found.fence, found.call) == "ok"
    assert await children_of(stage, found.id) == [found.child]


async def test_an_old_execution_starts_no_child(stage: Stage) -> None:
    run, fence, call = await stage.calling("delegate")
    await stage.take(run, "w2")

    assert await delegate(stage, run, fence, call) == "fenced"
    assert await children_of(stage, run) == []


async def test_a_run_that_is_being_cancelled_starts_no_child(stage: Stage) -> None:
    run, fence, call = await stage.calling("delegate")
    await stage.ask_cancel(run)

    assert await delegate(stage, run, fence, call) == "cancel"
    assert await children_of(stage, run) == []
    assert (await stage.call(call))["state"] == "proposed"


async def test_a_run_that_has_ended_starts_no_child(stage: Stage) -> None:
    run, fence, call = await stage.calling("delegate")
    await stage.cancel(run, fence)

    assert await delegate(stage, run, fence, call) == "fenced"
    assert await children_of(stage, run) == []


async def test_a_childs_success_is_its_parents_result(stage: Stage) -> None:
    found = await family(stage)

    verdict, going = await settle(stage, found.child, await stage.take(found.child))

    assert (verdict, going) == ("ended", [{"run": found.id, "leg": 2}])
    call = await stage.call(found.call)
    assert (call["state"], call["result"], call["is_error"]) == ("succeeded", RESULT, False)
    assert [each["outcome"] for each in call["history"]] == ["succeeded"]
    parent = await stage.run(found.id)
    assert (parent["status"], parent["parked"]) == ("queued", False)
    assert (await stage.told(found.id))[-2:] == ["wait.resolved", "call.succeeded"]


ENDINGS: list[tuple[str, str | None, str]] = [
    ("failed", "limit_turns", "failed (limit_turns)"),
    ("failed", "model_error", "failed (model_error)"),
    ("cancelled", None, "cancelled."),
    ("dead_letter", "internal", "dead_letter (internal)"),
]


@pytest.mark.parametrize(("status", "reason", "said"), ENDINGS)
async def test_any_other_end_of_a_child_is_an_error_that_says_how(
    stage: Stage, status: str, reason: str | None, said: str
) -> None:
    found = await family(stage)
    error = None if reason is None else {"type": reason, "detail": "x"}
    fence = await stage.take(found.child)
    if status == "cancelled":
        await stage.ask_cancel(found.child)

    _, going = await settle(stage, found.child, fence, status, reason=reason, error=error)

    assert going == [{"run": found.id, "leg": 2}]
    call = await stage.call(found.call)
    assert (call["state"], call["is_error"]) == ("failed", True)
    assert (call["result"]["error"], call["result"]["run"]) == (f"child_{status}", found.child)
    assert said in call["result"]["detail"]
    resolution = (await stage.one("select * from perdure.waits where call = %(c)s", c=found.call))[
        "resolution"
    ]
    assert resolution == {"run": found.child, "status": status, "reason": reason}


async def test_the_end_of_a_child_told_twice_wakes_its_parent_once(stage: Stage) -> None:
    found = await family(stage)
    await settle(stage, found.child, await stage.take(found.child))
    told, call = await stage.told(found.id), await stage.call(found.call)

    again = await children.ended(stage.connection, found.child, {"text": "late"})

    assert again == {"run": None, "leg": None}
    assert (await stage.told(found.id), await stage.call(found.call)) == (told, call)


async def test_a_child_that_lives_tells_its_parent_nothing(stage: Stage) -> None:
    found = await family(stage)

    assert await children.ended(stage.connection, found.child, RESULT) == {
        "run": None,
        "leg": None,
    }
    assert (await stage.call(found.call))["state"] == "waiting"


async def test_a_run_that_no_other_started_tells_nobody(stage: Stage) -> None:
    run = await stage.submit()
    assert await settle(stage, run, await stage.take(run)) == ("ended", [])


async def test_a_child_that_ends_before_its_parent_parks_leaves_it_its_leg(stage: Stage) -> None:
    found = await family(stage, parked=False)

    _, going = await settle(stage, found.child, await stage.take(found.child, "w2"))

    assert going == []
    assert (await stage.run(found.id))["status"] == "running"
    assert await stage.park(found.id, found.fence) == "again"


async def test_only_the_first_of_two_children_to_end_wakes_the_parent(stage: Stage) -> None:
    first = await give_birth(stage, await stage.submit(), beside="delegate")
    second = new_run_id()
    await delegate(stage, first.id, first.fence, first.second_call, second)
    assert await stage.park(first.id, first.fence) == "parked"

    _, going = await settle(stage, first.child, await stage.take(first.child))
    _, later = await settle(stage, second, await stage.take(second))

    assert (going, later) == ([{"run": first.id, "leg": 2}], [])
    fence = await stage.take(first.id)
    assert await stage.park(first.id, fence) == "again"


@pytest.mark.parametrize("status", ["succeeded", "failed", "cancelled"])
async def test_a_run_does_not_end_over_a_child_that_lives(stage: Stage, status: str) -> None:
    found = await family(stage, parked=False)
    if status == "cancelled":
        await stage.ask_cancel(found.id)

    assert await stage.end(found.id, found.fence, status) == "acting"
    assert (await stage.run(found.id))["finished_at"] is None
    assert (await stage.wait(await stage.open_wait(found.call)))["kind"] == "child"


async def test_a_dead_letter_leaves_its_child_alone_and_takes_nothing_from_it(stage: Stage) -> None:
    found = await family(stage)
    assert await stage.end(found.id, None, "dead_letter", reason="internal") == "ended"
    leg = (await stage.run(found.id))["leg"]

    verdict, going = await settle(stage, found.child, await stage.take(found.child))

    assert (verdict, going) == ("ended", [])
    assert (await stage.call(found.call))["state"] == "cancelled"
    assert ((await stage.run(found.id))["status"], (await stage.run(found.id))["leg"]) == (
        "dead_letter",
        leg,
    )


async def test_a_cancelling_parent_waits_for_its_child_and_for_nothing_else(stage: Stage) -> None:
    found = await give_birth(stage, await stage.submit(), beside="pay")
    second = await stage.ask(found.id, found.fence, found.second_call)
    await stage.ask_cancel(found.id)

    assert (await stage.wait(second))["state"] == "cancelled"
    assert await stage.park(found.id, found.fence) == "parked"
    parent = await stage.run(found.id)
    assert (parent["status"], parent["parked"], parent["leg"]) == ("cancelling", True, 2)
    assert "run.waiting" not in await stage.told(found.id)

    _, going = await settle(stage, found.child, await stage.take(found.child))

    assert going == [{"run": found.id, "leg": 2}]
    parent = await stage.run(found.id)
    assert (parent["status"], parent["parked"]) == ("cancelling", False)


async def test_a_run_that_waits_for_its_child_can_be_looked_at(stage: Stage) -> None:
    found = await family(stage)

    looked: dict[str, Any] = await runs.look(stage.connection, found.id)
    assert (looked["children"], looked["compensation"]) == (True, None)
    assert [call["held"] for call in looked["calls"]] == [True]
    assert await children.living(stage.connection, found.id) == [found.child]

    await settle(stage, found.child, await stage.take(found.child))
    assert not (await runs.look(stage.connection, found.id))["children"]
    assert await children.living(stage.connection, found.id) == []
