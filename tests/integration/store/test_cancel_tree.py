"""A cancel reaches all that was started below: told from the top, ended from the bottom."""

from collections.abc import Awaitable, Callable

import pytest

from app.domain.ids import new_run_id
from app.errors import RunEnded
from app.services import cancels
from app.services.context import Caller, Services
from app.store.db import Row, rows
from tests.integration.store.breaches import hold_lease
from tests.integration.store.family import delegate, family, give_birth, line, settle
from tests.integration.store.stage import Stage

ANN = Caller("ann")

pytestmark = pytest.mark.usefixtures("audited")

Make = Callable[[Stage, str], Awaitable[None]]


async def queued(stage: Stage, run: str) -> None:
    await stage.journal(run, "ENQUEUED")


async def running(stage: Stage, run: str) -> None:
    await stage.take(run)
    await hold_lease(stage, "w1")
    await stage.journal(run, "PENDING", "w1")


async def acting(stage: Stage, run: str) -> None:
    await running(stage, run)
    fence = (await stage.run(run))["fence"]
    (call,) = await stage.turn(run, fence, 1, "pay")
    assert await stage.start(stage.place(run, fence, call)) == "ok"


async def asking(stage: Stage, run: str) -> None:
    fence = await stage.take(run)
    (call,) = await stage.turn(run, fence, 1, "pay")
    await stage.ask(run, fence, call)
    assert await stage.park(run, fence) == "parked"


async def backing_off(stage: Stage, run: str) -> None:
    fence = await stage.take(run)
    await stage.begin(run, fence)
    await stage.fail(run, fence, retry=60.0)
    assert await stage.park(run, fence) == "parked"


async def lost(stage: Stage, run: str) -> None:
    """Parked on the question what became of a call."""
    fence = await stage.take(run)
    (call,) = await stage.turn(run, fence, 1, "pay")
    await stage.lose(run, fence, call, ask=True)
    assert await stage.park(run, fence) == "parked"


STANDING: list[Make] = [queued, asking, backing_off, lost]
MOVING: list[Make] = [running, acting]


async def ended(stage: Stage, *members: str) -> list[Row]:
    """What is told of the cancels: in the order of the clock, with the moment of each commit."""
    return await rows(
        stage.connection,
        """select e.run, e.type, r.finished_at from perdure.events e
           join perdure.runs r on r.id = e.run
           where r.id = any(%(members)s) and e.type in ('run.cancelling', 'run.cancelled')
           order by e.at""",
        members=list(members),
    )


@pytest.mark.parametrize("make", STANDING)
async def test_a_tree_in_which_nothing_moves_is_ended_in_one_commit(
    stage: Stage, services: Services, make: Make
) -> None:
    root, middle, leaf = await line(stage, 3)
    await make(stage, leaf)
    before = {run: await stage.legs(run) for run in (root, middle, leaf)}

    await cancels.cancel(services, root, ANN, "enough")

    told = await ended(stage, root, middle, leaf)
    down, up = [root, middle, leaf], [leaf, middle, root]
    assert [each["run"] for each in told] == [*down, *up]
    assert [each["type"] for each in told] == ["run.cancelling"] * 3 + ["run.cancelled"] * 3
    assert len({each["finished_at"] for each in told}) == 1
    assert {run: await stage.legs(run) for run in before} == before


@pytest.mark.parametrize("make", MOVING)
async def test_what_moves_is_told_and_its_ancestors_end_after_it(
    stage: Stage, services: Services, make: Make
) -> None:
    root, middle, leaf = await line(stage, 3)
    await make(stage, leaf)

    await cancels.cancel(services, root, ANN, None)

    found = [await stage.run(run) for run in (root, middle, leaf)]
    assert [each["status"] for each in found] == ["cancelling"] * 3
    assert [each["parked"] for each in found] == [True, True, False]
    assert [await stage.legs(run) for run in (root, middle)] == [[], []]


async def test_the_end_of_the_last_member_wakes_each_ancestor_in_turn(
    stage: Stage, services: Services
) -> None:
    root, middle, leaf = await line(stage, 3)
    await running(stage, leaf)
    await cancels.cancel(services, root, ANN, None)

    fence = (await stage.run(leaf))["fence"]
    for run, above in ((leaf, middle), (middle, root), (root, None)):
        assert await settle(stage, run, fence, "cancelled") == (
            "ended",
            [] if above is None else [{"run": above, "leg": 2}],
        )
        if above is not None:
            fence = await stage.take(above)

    statuses = {(await stage.run(run))["status"] for run in (root, middle, leaf)}
    assert statuses == {"cancelled"}


@pytest.mark.parametrize("make", [*STANDING, *MOVING])
async def test_a_cancel_asked_for_twice_changes_nothing(
    stage: Stage, services: Services, make: Make
) -> None:
    root, leaf = await line(stage, 2)
    await make(stage, leaf)
    await cancels.cancel(services, root, ANN, None)
    told = [await stage.told(run) for run in (root, leaf)]
    legs = [await stage.legs(run) for run in (root, leaf)]

    if make in STANDING:
        with pytest.raises(RunEnded):
            await cancels.cancel(services, root, ANN, None)
    else:
        await cancels.cancel(services, root, ANN, None)

    assert [await stage.told(run) for run in (root, leaf)] == told
    assert [await stage.legs(run) for run in (root, leaf)] == legs


@pytest.mark.parametrize("make", STANDING)
async def test_a_child_that_is_cancelled_alone_is_an_error_to_its_parent(
    stage: Stage, services: Services, make: Make
) -> None:
    found = await family(stage)
    await make(stage, found.child)

    await cancels.cancel(services, found.child, ANN, None)

    assert (await stage.run(found.child))["status"] == "cancelled"
    assert (await stage.run(found.id))["status"] == "queued"
    assert await stage.legs(found.id) == [2]
    call = await stage.call(found.call)
    assert (call["state"], call["result"]["error"]) == ("failed", "child_cancelled")


async def test_a_middle_that_is_cancelled_takes_its_children_along_and_wakes_its_parent(
    stage: Stage, services: Services
) -> None:
    root, middle, leaf = await line(stage, 3)
    await queued(stage, leaf)

    await cancels.cancel(services, middle, ANN, None)

    statuses = [(await stage.run(run))["status"] for run in (root, middle, leaf)]
    assert statuses == ["queued", "cancelled", "cancelled"]
    assert await stage.legs(root) == [2]


@pytest.mark.parametrize("make", [*STANDING, *MOVING])
async def test_of_two_children_the_one_that_moves_decides(
    stage: Stage, services: Services, make: Make
) -> None:
    first = await give_birth(stage, await stage.submit(), beside="delegate")
    second = new_run_id()
    assert await delegate(stage, first.id, first.fence, first.second_call, second) == "held"
    assert await stage.park(first.id, first.fence) == "parked"
    await asking(stage, first.child)
    await make(stage, second)

    await cancels.cancel(services, first.id, ANN, None)

    parent = await stage.run(first.id)
    assert (await stage.run(first.child))["status"] == "cancelled"
    assert parent["status"] == ("cancelled" if make in STANDING else "cancelling")
    # The first child's end opens a leg, which finds that there is another and parks again.
    assert await stage.legs(first.id) == ([] if make in STANDING else [2])


async def test_a_running_parent_of_a_standing_child_ends_by_its_own_leg(
    stage: Stage, services: Services
) -> None:
    found = await family(stage, parked=False)
    await hold_lease(stage, "w1")
    await stage.journal(found.id, "PENDING", "w1")
    await queued(stage, found.child)

    await cancels.cancel(services, found.id, ANN, None)

    assert (await stage.run(found.child))["status"] == "cancelled"
    assert (await stage.run(found.id))["status"] == "cancelling"
    assert await stage.legs(found.id) == [1]
    assert await stage.park(found.id, found.fence) == "again"
    assert (await settle(stage, found.id, found.fence, "cancelled"))[0] == "ended"
