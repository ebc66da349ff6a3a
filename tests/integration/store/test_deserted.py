"""Children that a dead letter has left behind: waited for again, heard late, cancelled too."""

import pytest
import pytest_asyncio

from app.durable.ending import followers
from app.services import cancels, restarts
from app.services.context import Caller, Services
from app.store import calls, children, sessions, workers
from tests.integration.store.family import (
    RESULT,
    Parent,
    family,
    line,
    paid,
    register,
    settle,
    undo_of,
)
from tests.integration.store.legwork import benched, delegate
from tests.integration.store.stage import Stage

ANN = Caller("ann")

pytestmark = pytest.mark.usefixtures("audited_by_hand")


@pytest_asyncio.fixture(autouse=True)
async def _agents(stage: Stage) -> None:
    await register(stage, "desk")
    await register(stage, "undoing")


async def die(stage: Stage, run: str) -> None:
    """Its leg broke for the third time."""
    found = await stage.run(run)
    await stage.do("update perdure.runs set breaches = 2 where id = %(run)s", run=run)
    async with stage.connection.transaction():
        work = await sessions.lock_of(stage.connection, run)
        assert work is not None
        assert await workers.carry_on(stage.connection, run, found["leg"], "broken") is None
        await followers(stage.connection, {**work, "id": run})
    assert (await stage.run(run))["status"] == "dead_letter"


async def deserted(stage: Stage) -> Parent:
    found = await family(stage, parked=False)
    await die(stage, found.id)
    return found


async def test_a_resumed_dead_letter_waits_for_its_child_again(
    stage: Stage, services: Services
) -> None:
    found = await deserted(stage)

    await restarts.resume(services, found.id, {}, ANN)

    call = await stage.call(found.call)
    assert (call["state"], call["finished_at"], call["attempts"]) == ("waiting", None, 1)
    fence = await stage.take(found.id)
    assert await stage.end(found.id, fence, "succeeded") == "acting"
    assert await stage.park(found.id, fence) == "parked"
    _, going = await settle(stage, found.child, await stage.take(found.child))
    assert going == [{"run": found.id, "leg": (await stage.run(found.id))["leg"]}]
    assert (await stage.call(found.call))["result"] == RESULT


async def test_a_resumed_dead_letter_can_be_cancelled_with_its_child(
    stage: Stage, services: Services
) -> None:
    found = await deserted(stage)
    await restarts.resume(services, found.id, {}, ANN)

    await cancels.cancel(services, found.id, ANN, None)

    statuses = [(await stage.run(run))["status"] for run in (found.id, found.child)]
    assert statuses == ["cancelled", "cancelled"]


@pytest.mark.parametrize("status", ["succeeded", "failed"])
async def test_a_child_that_ended_unheard_is_heard_by_the_resumed_parent(
    stage: Stage, services: Services, status: str
) -> None:
    found = await deserted(stage)
    reason = None if status == "succeeded" else "model_error"
    await settle(
        stage,
        found.child,
        await stage.take(found.child),
        status,
        reason=reason,
        output={"text": "Done.", "content": []} if reason is None else None,
    )
    await restarts.resume(services, found.id, {}, ANN)
    assert (await stage.call(found.call))["state"] == "ready"
    fence = await stage.take(found.id)

    async with benched(services) as bench:
        await delegate(bench, found.id, fence)

    call = await stage.call(found.call)
    assert (call["state"], call["attempts"]) == (status, 2)
    assert call["result"]["run"] == found.child
    assert [each["outcome"] for each in call["history"]] == [None, status]
    made = await stage.one("select count(*) from perdure.runs where parent = %(run)s", run=found.id)
    assert made["count"] == 1


async def test_a_cancel_reaches_below_a_dead_letter(stage: Stage, services: Services) -> None:
    root, middle, lower, leaf = await line(stage, 4)
    await die(stage, middle)
    assert await children.living(stage.connection, root) == [lower]

    await cancels.cancel(services, root, ANN, None)

    statuses = [(await stage.run(run))["status"] for run in (root, middle, lower, leaf)]
    assert statuses == ["cancelled", "dead_letter", "cancelled", "cancelled"]


async def test_an_undo_that_a_dead_letter_cut_short_is_made_after_all(
    stage: Stage, services: Services
) -> None:
    run = await stage.submit(agent="undoing")
    fence = await stage.take(run)
    (call,) = await paid(stage, run, fence, 1, "pay")
    await stage.ask_cancel(run, compensate=True)
    await calls.next_compensation(stage.connection, run, fence)
    await die(stage, run)
    assert (await stage.told(run))[-2:] == ["compensation.failed", "run.dead_letter"]

    await restarts.resume(services, run, {}, ANN)

    fence = await stage.take(run)
    assert await stage.end(run, fence, "cancelled") == "acting"
    assert await calls.next_compensation(stage.connection, run, fence) == {
        "verdict": "ok",
        "turn": 2,
        "index": 0,
    }
    at = stage.place(run, fence, undo_of(run, 2))
    await stage.start(at)
    await stage.finish(at)
    assert (await stage.call(undo_of(run, 2)))["compensates"] == call
    assert await stage.end(run, fence, "cancelled") == "ended"
