"""Cancels that undo, that come twice with more to ask, and that make way for another run."""

import pytest
import pytest_asyncio

from app.domain.ids import new_session_id
from app.services import cancels
from app.services.context import Caller, Services
from app.services.runs import Submission, submit
from tests.integration.store.family import (
    delegate,
    family,
    give_birth,
    line,
    paid,
    register,
    settle,
)
from tests.integration.store.stage import Stage
from tests.integration.store.test_submission import submission

ANN = Caller("ann")

pytestmark = pytest.mark.usefixtures("audited_by_hand")


@pytest_asyncio.fixture(autouse=True)
async def _agents(stage: Stage) -> None:
    await register(stage, "desk")
    await register(stage, "undoing")


async def has_paid(stage: Stage, run: str) -> int:
    fence = await stage.take(run)
    await paid(stage, run, fence, 1, "pay")
    return fence


async def asks(stage: Stage, run: str, fence: int, turn: int) -> None:
    """Parks on a question."""
    (call,) = await stage.turn(run, fence, turn, "pay")
    await stage.ask(run, fence, call)
    assert await stage.park(run, fence) == "parked"


async def test_a_parked_run_that_has_something_to_undo_gets_a_leg_for_it(
    stage: Stage, services: Services
) -> None:
    run = await stage.submit(agent="undoing")
    await asks(stage, run, await has_paid(stage, run), 2)

    await cancels.cancel(services, run, ANN, None, compensate=True)

    found = await stage.run(run)
    assert (found["status"], found["compensate"], found["parked"]) == ("cancelling", True, False)
    assert await stage.legs(run) == [2]


async def test_a_parked_run_that_has_nothing_to_undo_is_ended_at_once(
    stage: Stage, services: Services
) -> None:
    run = await stage.submit(agent="undoing")
    await asks(stage, run, await stage.take(run), 1)

    await cancels.cancel(services, run, ANN, None, compensate=True)

    assert (await stage.run(run))["status"] == "cancelled"
    assert await stage.legs(run) == []


async def test_a_parent_undoes_after_its_children_have(stage: Stage, services: Services) -> None:
    run = await stage.submit(agent="undoing")
    fence = await has_paid(stage, run)
    (call,) = await stage.turn(run, fence, 2, "delegate")
    child = f"run_{new_session_id()[4:]}"
    assert await delegate(stage, run, fence, call, child, agent="undoing") == "held"
    assert await stage.park(run, fence) == "parked"
    await asks(stage, child, await has_paid(stage, child), 2)

    await cancels.cancel(services, run, ANN, None, compensate=True)

    assert [await stage.legs(each) for each in (run, child)] == [[], [2]]
    own = await stage.take(child)
    assert await stage.end(child, own, "cancelled") == "acting"
    await undo(stage, child, own)
    assert (await settle(stage, child, own, "cancelled"))[1] == [{"run": run, "leg": 2}]
    above = await stage.take(run)
    assert await stage.end(run, above, "cancelled") == "acting"
    await undo(stage, run, above)
    assert await stage.end(run, above, "cancelled") == "ended"


async def undo(stage: Stage, run: str, fence: int) -> None:
    found = await stage.one(
        "select * from perdure.next_compensation(%(run)s, %(fence)s)", run=run, fence=fence
    )
    at = stage.place(run, fence, f"call_{run[4:]}_{found['turn']}_{found['index']}")
    assert await stage.start(at) == "ok"
    assert await stage.finish(at) == "ok"


async def test_a_parent_whose_standing_child_ends_is_woken_once_to_undo(
    stage: Stage, services: Services
) -> None:
    run = await stage.submit(agent="undoing")
    fence = await has_paid(stage, run)
    (call,) = await stage.turn(run, fence, 2, "delegate")
    assert await delegate(stage, run, fence, call) == "held"
    assert await stage.park(run, fence) == "parked"

    await cancels.cancel(services, run, ANN, None, compensate=True)

    assert (await stage.run(run))["status"] == "cancelling"
    assert await stage.legs(run) == [2]


async def test_that_it_is_to_be_undone_can_be_said_later_and_reaches_the_whole_tree(
    stage: Stage, services: Services
) -> None:
    root, middle, leaf = members = await line(stage, 3)
    await stage.take(leaf)
    await cancels.cancel(services, root, ANN, None)
    assert [(await stage.run(run))["compensate"] for run in members] == [False] * 3

    await cancels.cancel(services, root, ANN, None, compensate=True)
    await cancels.cancel(services, middle, ANN, None)

    found = [await stage.run(run) for run in members]
    assert [each["compensate"] for each in found] == [True] * 3
    assert [each["parked"] for each in found] == [True, True, False]
    assert [(await stage.told(run)).count("run.cancelling") for run in members] == [2, 2, 2]


async def test_what_an_attempt_in_hand_asks_for_does_not_park_a_run_that_is_to_end(
    stage: Stage,
) -> None:
    """The attempt ended after the cancel, without anybody knowing what it did."""
    run, fence, call = await stage.calling()
    at = stage.place(run, fence, call)
    await stage.start(at)
    await stage.ask_cancel(run)
    assert await stage.hold(at, "outcome", attempt_ended="interrupted") == "held"

    assert await stage.park(run, fence) == "again"
    assert await stage.end(run, fence, "cancelled") == "ended"
    assert (await stage.call(call))["state"] == "outcome_unknown"


def instead(session: str) -> Submission:
    return submission(session=session, on_busy="supersede")


async def test_a_run_that_makes_way_takes_its_children_along(
    stage: Stage, services: Services
) -> None:
    session = new_session_id()
    found = await family(stage, session=session)
    held = await stage.submit(session=session, held=True)

    new = (await submit(services, instead(session), ANN, None, "f")).run

    statuses = [(await stage.run(run))["status"] for run in (found.id, found.child, held)]
    assert statuses == ["cancelled"] * 3
    assert not (await stage.run(new))["held"]
    assert await stage.legs(new) == [1]


async def test_a_run_that_moves_holds_up_the_one_that_it_makes_way_for(
    stage: Stage, services: Services
) -> None:
    session = new_session_id()
    found = await family(stage, session=session)
    fence = await stage.take(found.child)

    new = (await submit(services, instead(session), ANN, None, "f")).run

    assert (await stage.run(new))["held"]
    await settle(stage, found.child, fence, "cancelled")
    _, going = await settle(stage, found.id, await stage.take(found.id), "cancelled")
    assert going == [{"run": new, "leg": 1}]


async def test_a_child_that_makes_way_is_an_error_to_its_parent(
    stage: Stage, services: Services
) -> None:
    found = await family(stage)
    session = (await stage.run(found.child))["session"]

    new = (await submit(services, instead(session), ANN, None, "f")).run

    assert (await stage.run(found.child))["status"] == "cancelled"
    assert await stage.legs(found.id) == [2]
    assert (await stage.call(found.call))["state"] == "failed"
    assert not (await stage.run(new))["held"]


async def test_a_run_held_behind_a_child_is_let_go_when_the_tree_is_cancelled(
    stage: Stage, services: Services
) -> None:
    found = await give_birth(stage, await stage.submit())
    assert await stage.park(found.id, found.fence) == "parked"
    held = await stage.submit(session=(await stage.run(found.child))["session"], held=True)

    await cancels.cancel(services, found.id, ANN, None)

    assert not (await stage.run(held))["held"]
    assert await stage.legs(held) == [1]
