"""Cancels of trees that grow, shrink and wake while they are on."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable
from typing import Any

import pytest

from app.errors import RunEnded, WaitClosed
from app.services import cancels
from app.services import waits as answers
from app.services.context import Caller, Services
from app.store import waits
from app.store.audit import audit
from app.store.db import Row, rows
from tests.integration.store.breaches import hold_lease
from tests.integration.store.family import family, line, register, settle
from tests.integration.store.gating import one_behind_the_other
from tests.integration.store.legwork import benched, delegate
from tests.integration.store.stage import Stage

ANN = Caller("ann")
ROUNDS = 200 if os.environ.get("PERDURE_TEST_FULL") == "1" else 20


@pytest.fixture
async def desk(alone: Stage) -> AsyncIterator[Stage]:
    """Afterwards all runs have ended, and no rule of the audit is broken."""
    await register(alone, "desk")
    await hold_lease(alone, await alone.worker("w1"))
    yield alone
    assert await audit(alone.connection) == []
    live = await rows(alone.connection, "select id from perdure.runs where finished_at is null")
    assert live == []


async def together(number: int, *acts: Awaitable[Any]) -> list[Any]:
    """All begun at once, in another order each round; a run may have ended before its cancel."""
    tasks = [asyncio.ensure_future(act) for act in (acts if number % 2 else reversed(acts))]
    await asyncio.wait(tasks)
    done = tasks if number % 2 else tasks[::-1]
    return [None if isinstance(task.exception(), RunEnded) else task.result() for task in done]


async def settle_up(stage: Stage, *members: str) -> None:
    """From the bottom: each ends by its leg, and wakes the one above."""
    for run in reversed(members):
        found = await stage.run(run)
        fence = found["fence"] if found["owner"] else await stage.take(run)
        assert (await settle(stage, run, fence, "cancelled"))[0] == "ended"


async def children_of(stage: Stage, run: str) -> list[Row]:
    query = "select status from perdure.runs where parent = %(run)s"
    return await rows(stage.connection, query, run=run)


@pytest.mark.parametrize("order", ["child first", "cancel first"])
async def test_a_child_is_cancelled_with_its_parent_or_never_started(
    stage: Stage, gate: Stage, services: Services, order: str
) -> None:
    await register(stage, "desk")
    run, fence, _ = await stage.calling("delegate")

    async def cancel() -> None:
        await cancels.cancel(services, run, ANN, None)

    async with benched(services) as bench:

        async def start() -> None:
            await delegate(bench, run, fence)

        acts = (start, cancel) if order == "child first" else (cancel, start)
        assert await one_behind_the_other(gate, run, *acts) == [None, None]

    children = [each["status"] for each in await children_of(stage, run)]
    assert children == (["cancelled"] if order == "child first" else [])
    assert await stage.park(run, fence) == "again"
    await settle_up(stage, run)


async def test_no_child_that_is_started_meanwhile_escapes(desk: Stage, crowd: Services) -> None:
    async with benched(crowd) as bench:
        for number in range(ROUNDS):
            members = await line(desk, 3)
            spawner = members[-1]
            fence = await desk.take(spawner)
            await desk.turn(spawner, fence, 1, "delegate")
            await desk.journal(spawner, "PENDING", "w1")

            await together(
                number,
                cancels.cancel(crowd, members[0], ANN, None),
                delegate(bench, spawner, fence),
            )

            children = [each["status"] for each in await children_of(desk, spawner)]
            assert children in ([], ["cancelled"])
            assert await desk.park(spawner, fence) == "again"
            await settle_up(desk, *members)


@pytest.mark.parametrize("order", ["park first", "cancel first"])
async def test_a_parent_that_parks_meanwhile_is_ended_or_ends_itself(
    stage: Stage, gate: Stage, services: Services, order: str
) -> None:
    found = await family(stage, parked=False)

    async def cancel() -> None:
        await cancels.cancel(services, found.id, ANN, None)

    async def park() -> str:
        return await stage.park(found.id, found.fence)

    acts = (park, cancel) if order == "park first" else (cancel, park)
    told = await one_behind_the_other(gate, found.id, *acts)

    parent, child = await stage.run(found.id), await stage.run(found.child)
    assert child["status"] == "cancelled"
    if order == "park first":
        assert (told, parent["status"]) == (["parked", None], "cancelled")
    else:
        assert (told, parent["status"]) == ([None, "again"], "cancelling")
        await settle_up(stage, found.id)


@pytest.mark.parametrize("order", ["end first", "cancel first"])
async def test_a_child_that_ends_meanwhile_is_told_of_or_cancelled(
    stage: Stage, gate: Stage, services: Services, order: str
) -> None:
    found = await family(stage)
    fence = await stage.take(found.child)

    async def cancel() -> None:
        await cancels.cancel(services, found.id, ANN, None)

    async def end() -> tuple[str, list[Row]]:
        return await settle(stage, found.child, fence)

    acts = (end, cancel) if order == "end first" else (cancel, end)
    told = await one_behind_the_other(gate, found.id, *acts)

    parent = await stage.run(found.id)
    if order == "end first":
        # Woken by its child, and ended before a leg came to it.
        assert told == [("ended", [{"run": found.id, "leg": 2}]), None]
        assert parent["status"] == "cancelled"
    else:
        assert told == [None, ("cancel", [])]
        assert (parent["status"], parent["parked"]) == ("cancelling", True)
        await settle_up(stage, found.id, found.child)


async def test_cancels_of_all_members_at_once_end_each_of_them_once(
    desk: Stage, crowd: Services
) -> None:
    for number in range(ROUNDS):
        members = await line(desk, 4)
        await desk.journal(members[-1], "ENQUEUED")

        await together(number, *(cancels.cancel(crowd, run, ANN, None) for run in members))

        for run in members:
            told = await desk.told(run)
            assert [told.count(each) for each in ("run.cancelling", "run.cancelled")] == [1, 1]


@pytest.mark.parametrize("order", ["answer first", "cancel first"])
async def test_an_answer_that_comes_meanwhile_counts_or_comes_too_late(
    stage: Stage, gate: Stage, services: Services, order: str
) -> None:
    found = await family(stage)
    fence = await stage.take(found.child)
    (call,) = await stage.turn(found.child, fence, 1, "pay")
    wait = await stage.ask(found.child, fence, call)
    assert await stage.park(found.child, fence) == "parked"

    async def cancel() -> None:
        await cancels.cancel(services, found.id, ANN, None)

    async def answer() -> None:
        await answers.resolve(services, wait, {"decision": "allow"}, ANN, None)

    acts = (answer, cancel) if order == "answer first" else (cancel, answer)
    told = await one_behind_the_other(gate, found.child, *acts)

    if order == "answer first":
        assert told == [None, None]
    else:
        assert isinstance(told[1], WaitClosed)
    assert await stage.legs(found.child) == ([2] if order == "answer first" else [])
    statuses = [(await stage.run(run))["status"] for run in (found.id, found.child)]
    assert statuses == ["cancelled", "cancelled"]


async def test_a_timer_that_goes_off_meanwhile_starts_nothing_after_the_end(
    desk: Stage, crowd: Services
) -> None:
    for number in range(ROUNDS):
        found = await family(desk)
        fence = await desk.take(found.child)
        await desk.begin(found.child, fence)
        await desk.fail(found.child, fence, retry=0.0)
        assert await desk.park(found.child, fence) == "parked"
        wait = await desk.one("select id from perdure.waits where run = %(run)s", run=found.child)

        _, woken = await together(
            number,
            cancels.cancel(crowd, found.id, ANN, None),
            waits.expire(desk.connection, wait["id"]),
        )

        statuses = [(await desk.run(run))["status"] for run in (found.id, found.child)]
        assert statuses == ["cancelled", "cancelled"]
        assert woken["leg"] in (2, None)
        assert (await waits.expire(desk.connection, wait["id"]))["leg"] is None
