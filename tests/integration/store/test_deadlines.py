"""Runs that come too late: whoever nobody is at is ended by the sweep, the others by their legs."""

from collections.abc import Awaitable, Callable

import pytest
import pytest_asyncio

from app.domain.ids import new_session_id
from app.durable.sweep import LATE, sweep
from app.services.context import Services
from app.store import runs
from app.store.audit import audit
from app.store.db import Connection
from tests.integration.store.breaches import hold_lease
from tests.integration.store.family import family, register, settle
from tests.integration.store.gating import one_behind_the_other
from tests.integration.store.stage import Stage

Make = Callable[[Stage], Awaitable[str]]


@pytest_asyncio.fixture
async def alone(alone: Stage) -> Stage:
    await register(alone, "desk")
    await hold_lease(alone, await alone.worker("w1"))
    return alone


async def be_late(stage: Stage, *members: str) -> None:
    await stage.do(
        """update perdure.runs set deadline = clock_timestamp() - interval '1 s'
           where id = any(%(members)s)""",
        members=list(members),
    )


async def be_patient(_: Connection) -> None:
    """A sweep that stays behind a lock, which it else leaves to its next round."""


async def swept(stage: Stage, services: Services) -> None:
    await sweep(services.database, services.legs)
    assert await audit(stage.connection) == []


async def queued(stage: Stage) -> str:
    run = await stage.submit()
    await stage.journal(run, "ENQUEUED")
    return run


async def asking(stage: Stage) -> str:
    run, fence, call = await stage.calling(session=new_session_id())
    await stage.ask(run, fence, call)
    assert await stage.park(run, fence) == "parked"
    return run


async def backing_off(stage: Stage) -> str:
    run = await stage.submit()
    fence = await stage.take(run)
    await stage.begin(run, fence)
    await stage.fail(run, fence, retry=60.0)
    assert await stage.park(run, fence) == "parked"
    return run


@pytest.mark.parametrize("make", [queued, asking, backing_off])
async def test_a_late_run_that_nobody_is_at_is_ended(
    alone: Stage, crowd: Services, make: Make
) -> None:
    run = await make(alone)
    held = await alone.submit(session=(await alone.run(run))["session"], held=True)
    await swept(alone, crowd)
    assert (await alone.run(run))["finished_at"] is None
    await be_late(alone, run)

    await swept(alone, crowd)

    found = await alone.run(run)
    assert (found["status"], found["reason"], found["error"]) == ("failed", "deadline", LATE)
    assert (await alone.told(run))[-2:] == ["limit.reached", "run.failed"]
    assert (await alone.run(held))["held"] is False
    assert await alone.legs(held) == [1]
    told = await alone.told(run)
    await swept(alone, crowd)
    assert await alone.told(run) == told


async def test_a_late_run_that_is_held_behind_another_is_ended(
    alone: Stage, crowd: Services
) -> None:
    holder = await queued(alone)
    held = await alone.submit(session=(await alone.run(holder))["session"], held=True)
    await be_late(alone, held)

    await swept(alone, crowd)

    assert (await alone.run(held))["reason"] == "deadline"
    assert (await alone.run(holder))["status"] == "queued"


async def test_a_late_run_under_way_is_ended_by_its_leg(alone: Stage, crowd: Services) -> None:
    run = await alone.submit()
    fence = await alone.take(run)
    await alone.journal(run, "PENDING", "w1")
    await be_late(alone, run)

    await swept(alone, crowd)

    assert (await alone.run(run))["status"] == "running"
    assert await alone.begin(run, fence) == "deadline"


async def test_a_late_run_of_which_a_call_may_be_acting_is_left_to_its_leg(
    alone: Stage, crowd: Services
) -> None:
    run, fence, call = await alone.calling(session=new_session_id())
    await alone.start(alone.place(run, fence, call))
    await alone.do("update perdure.runs set status = 'queued' where id = %(run)s", run=run)
    await alone.journal(run, "ENQUEUED")
    await be_late(alone, run)

    await swept(alone, crowd)

    assert (await alone.run(run))["status"] == "queued"
    assert (await alone.call(call))["state"] == "started"


async def test_a_late_run_that_is_being_cancelled_stays_so(alone: Stage, crowd: Services) -> None:
    found = await family(alone)
    await alone.take(found.child)
    await alone.journal(found.child, "PENDING", "w1")
    await alone.ask_cancel(found.id)
    await be_late(alone, found.id, found.child)

    await swept(alone, crowd)

    assert (await alone.run(found.id))["status"] == "cancelling"


async def test_a_late_child_ends_before_its_parent_which_its_end_wakes(
    alone: Stage, crowd: Services
) -> None:
    found = await family(alone)
    await alone.journal(found.child, "ENQUEUED")
    await be_late(alone, found.id, found.child)

    await swept(alone, crowd)

    assert (await alone.run(found.child))["reason"] == "deadline"
    assert (await alone.run(found.id))["status"] == "queued"
    assert await alone.legs(found.id) == [2]
    call = await alone.call(found.call)
    assert (call["state"], call["result"]["error"]) == ("failed", "child_failed")
    await swept(alone, crowd)  # nobody has taken the leg yet
    assert (await alone.run(found.id))["reason"] == "deadline"


async def test_a_late_parent_waits_for_a_child_under_way(alone: Stage, crowd: Services) -> None:
    found = await family(alone)
    fence = await alone.take(found.child)
    await alone.journal(found.child, "PENDING", "w1")
    await be_late(alone, found.id, found.child)

    await swept(alone, crowd)

    assert (await alone.run(found.id))["status"] == "waiting"
    assert await alone.begin(found.child, fence) == "deadline"
    _, going = await settle(alone, found.child, fence, "failed", reason="deadline", error=LATE)
    assert going == [{"run": found.id, "leg": 2}]


@pytest.mark.parametrize("order", ["taken first", "swept first"])
async def test_a_late_run_is_taken_or_ended_and_never_both(
    alone: Stage, crowd: Services, order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.durable.sweep.be_brief", be_patient)
    run = await queued(alone)
    await be_late(alone, run)

    async def take() -> str:
        return (await runs.take(alone.connection, run, 1, "w1", "w1/x"))[0]

    async def end() -> None:
        await sweep(crowd.database, crowd.legs)

    async with crowd.database.connection() as connection:
        gate = Stage(connection)
        acts = (take, end) if order == "taken first" else (end, take)
        told = await one_behind_the_other(gate, run, *acts)

    verdict = told[0] if order == "taken first" else told[1]
    assert verdict == ("taken" if order == "taken first" else "moved")
    status = (await alone.run(run))["status"]
    assert status == ("running" if order == "taken first" else "failed")
