"""A wake-up and the park that could swallow it, let go in one moment, thousands of times.

After each race the run was parked and the wake-up names the leg to enqueue, or the park found that
there is something to do: never parked with nothing to wake it, never two legs.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
import pytest_asyncio

from app.domain.ids import new_message_id
from app.store import calls, events, messages, runs, waits
from app.store.calls import Hold, Place
from app.store.db import rows
from tests.integration.store.stage import (
    ALLOW,
    DENY,
    DID_NOT_HAPPEN,
    HAPPENED,
    SKIP,
    Stage,
    intent,
)
from tests.support.sampling import FULL

ROUNDS = 2000 if FULL else 80
BARRIER = 726584
SIGNED = '{"result":"signed"}'

pytestmark = pytest.mark.timeout(1800 if FULL else 180)


@dataclass(frozen=True)
class Parking:
    """A run that is about to park, and what it is about to park on; `late` may still answer it."""

    run: str
    fence: int
    waits: list[str]
    late: Place | None = None


Prepare = Callable[[Stage], Awaitable[Parking]]
Act = Callable[[], Awaitable[Any]]
# Answers the leg to enqueue, as the store does, or None.
Wake = Callable[[Stage, Parking], Awaitable[int | None]]


@pytest_asyncio.fixture
async def racers(shared_url: str) -> AsyncIterator[list[Stage]]:
    """Three connections that race; the one of `stage` prepares, starts and judges."""
    async with AsyncExitStack() as stack:
        connecting = [
            psycopg.AsyncConnection.connect(shared_url, autocommit=True) for _ in range(3)
        ]
        yield [Stage(await stack.enter_async_context(await each)) for each in connecting]


async def let_go_at_once(judge: Stage, *racing: tuple[Stage, Act]) -> list[Any]:
    """Each act has been sent, and waits in the database, before any of them begins."""
    await judge.do("select pg_advisory_lock(%(key)s)", key=BARRIER)
    begun = [asyncio.ensure_future(_behind_the_barrier(racer, act)) for racer, act in racing]
    while await _at_the_barrier(judge) < len(begun) and not any(each.done() for each in begun):
        pass
    await judge.do("select pg_advisory_unlock(%(key)s)", key=BARRIER)
    return await asyncio.gather(*begun)


async def _behind_the_barrier(racer: Stage, act: Act) -> Any:  # noqa: ANN401 - what the act answers
    async with racer.connection.pipeline() as pipeline:
        await racer.do("select pg_advisory_xact_lock_shared(%(key)s)", key=BARRIER)
        await pipeline.sync()  # a transaction of its own: the act's first snapshot comes after it
        return await act()


async def _at_the_barrier(judge: Stage) -> int:
    found = await judge.one(
        """select count(*) as waiting from pg_locks
           where locktype = 'advisory' and objid = %(key)s and not granted
             and database = (select oid from pg_database where datname = current_database())""",
        key=BARRIER,
    )
    return int(found["waiting"])


# --- what a run parks on


async def approval(stage: Stage, seconds: float | None = None) -> Parking:
    run, fence, call = await stage.calling()
    return Parking(run, fence, [await stage.ask(run, fence, call, seconds=seconds)])


async def overdue_approval(stage: Stage) -> Parking:
    return await approval(stage, seconds=0.0)


async def two_approvals(stage: Stage) -> Parking:
    run, fence, first = await stage.calling("pay", "pay")
    second = first[:-1] + "1"
    return Parking(run, fence, [await stage.ask(run, fence, call) for call in (first, second)])


async def outcome(stage: Stage) -> Parking:
    """Asked by the execution that took over from the one that began the call."""
    run, fence, call = await stage.calling()
    begun = stage.place(run, fence, call)
    assert await stage.start(begun) == "ok"
    fence = await stage.take(run, "w2")
    found = stage.place(run, fence, call, worker="w2")
    await stage.hold(found, "outcome", attempt_ended="interrupted")
    return Parking(run, fence, [await stage.open_wait(call)], begun)


async def external(stage: Stage) -> Parking:
    run, fence, call = await stage.calling()
    asked = Hold("waiting", "external", "?")
    await calls.hold(stage.connection, stage.place(run, fence, call), intent(), asked)
    return Parking(run, fence, [await stage.open_wait(call)])


async def next_attempt(stage: Stage) -> Parking:
    run, fence, call = await stage.calling()
    at = stage.place(run, fence, call)
    await stage.hold(at, "timer", intent("read_only"), seconds=0.0, attempt_ended="raised")
    return Parking(run, fence, [await stage.open_wait(call)])


async def back_off(stage: Stage) -> Parking:
    run = await stage.submit()
    fence = await stage.take(run)
    await stage.begin(run, fence)
    await stage.fail(run, fence, retry=0.0)
    found = await stage.one("select id from perdure.waits where run = %(run)s", run=run)
    return Parking(run, fence, [found["id"]])


# --- what wakes it


def says(resolution: str, nth: int = 0) -> Wake:
    async def resolve(racer: Stage, at: Parking) -> int | None:
        leg: int | None = (await racer.resolve(at.waits[nth], resolution))["leg"]
        return leg

    return resolve


async def clock(racer: Stage, at: Parking) -> int | None:
    """As the sweep does: a wait whose run is locked is passed over, and looked at again."""
    while True:
        woken = await waits.expire(racer.connection, at.waits[0])
        if woken["run"] is not None or (await racer.wait(at.waits[0]))["state"] != "open":
            leg: int | None = woken["leg"]
            return leg


async def late_outcome(racer: Stage, at: Parking) -> int | None:
    assert at.late is not None
    leg: int | None = (await calls.settle_late(racer.connection, at.late, {"id": 7}))["leg"]
    return leg


async def message(racer: Stage, at: Parking) -> None:
    async with racer.connection.transaction():
        await runs.lock(racer.connection, at.run)
        made = await messages.insert(racer.connection, new_message_id(), at.run, "hurry")
        await events.tell(racer.connection, at.run, "message.queued", message=made["id"])


ONE: dict[str, tuple[Prepare, Wake]] = {
    "allow": (approval, says(ALLOW)),
    "deny": (approval, says(DENY)),
    "allow one of two": (two_approvals, says(ALLOW)),
    "too late": (overdue_approval, says(ALLOW)),
    "expiry": (overdue_approval, clock),
    "happened": (outcome, says(HAPPENED)),
    "did not happen": (outcome, says(DID_NOT_HAPPEN)),
    "skip": (outcome, says(SKIP)),
    "late outcome": (outcome, late_outcome),
    "external result": (external, says(SIGNED)),
    "next attempt": (next_attempt, clock),
    "back-off": (back_off, clock),
}
TWO: dict[str, tuple[Prepare, Wake, Wake]] = {
    "the same decision": (approval, says(ALLOW), says(ALLOW)),
    "contrary decisions": (approval, says(ALLOW), says(DENY)),
    "decisions of two calls": (two_approvals, says(ALLOW), says(DENY, nth=1)),
    "a decision and its expiry": (overdue_approval, says(ALLOW), clock),
    "two sweeps": (next_attempt, clock, clock),
    "a person and the late outcome": (outcome, says(DID_NOT_HAPPEN), late_outcome),
}


@pytest.mark.parametrize("kind", ONE)
async def test_a_wake_up_is_never_lost_to_a_park_at_the_same_moment(
    stage: Stage, racers: list[Stage], kind: str
) -> None:
    prepare, wake = ONE[kind]
    seen = set()
    for _ in range(ROUNDS):
        at = await prepare(stage)
        parked, leg = await let_go_at_once(stage, _park(racers[0], at), _wake(racers[1], at, wake))
        await assert_woken_once(stage, at, parked, [leg])
        seen.add(parked)
    assert seen == {"parked", "again"}  # else nothing was raced


@pytest.mark.parametrize("kind", TWO)
async def test_of_two_wake_ups_and_a_park_at_the_same_moment_one_leg_comes(
    stage: Stage, racers: list[Stage], kind: str
) -> None:
    prepare, *wakes = TWO[kind]
    seen = set()
    for _ in range(ROUNDS):
        at = await prepare(stage)
        waking = [_wake(racer, at, wake) for racer, wake in zip(racers[1:], wakes, strict=True)]
        parked, *legs = await let_go_at_once(stage, _park(racers[0], at), *waking)
        await assert_woken_once(stage, at, parked, legs)
        seen.add(parked)
    assert seen == {"parked", "again"}


@pytest.mark.parametrize("kind", TWO)
async def test_of_two_wake_ups_of_a_parked_run_one_brings_the_leg(
    stage: Stage, racers: list[Stage], kind: str
) -> None:
    prepare, *wakes = TWO[kind]
    for _ in range(ROUNDS):
        at = await prepare(stage)
        assert await stage.park(at.run, at.fence) == "parked"
        waking = [_wake(racer, at, wake) for racer, wake in zip(racers[1:], wakes, strict=True)]
        await assert_woken_once(stage, at, "parked", await let_go_at_once(stage, *waking))


async def test_a_message_at_the_moment_of_a_park_is_kept_for_the_next_turn(
    stage: Stage, racers: list[Stage]
) -> None:
    for _ in range(ROUNDS):
        at = await approval(stage)
        parked, _ = await let_go_at_once(stage, _park(racers[0], at), _wake(racers[1], at, message))
        assert parked == "parked"
        assert (await stage.resolve(at.waits[0], DENY))["leg"] == 2
        fence = await stage.take(at.run)
        assert await stage.begin(at.run, fence, turn=2) == "call"
        taken = "select state, turn from perdure.messages where run = %(run)s"
        assert await rows(stage.connection, taken, run=at.run) == [{"state": "queued", "turn": 2}]


def _park(racer: Stage, at: Parking) -> tuple[Stage, Act]:
    return racer, lambda: runs.park(racer.connection, at.run, at.fence, 1)


def _wake(racer: Stage, at: Parking, wake: Wake) -> tuple[Stage, Act]:
    return racer, lambda: wake(racer, at)


async def assert_woken_once(stage: Stage, at: Parking, parked: str, legs: list[int | None]) -> None:
    found = await stage.run(at.run)
    came = [leg for leg in legs if leg is not None]
    if parked == "parked":
        assert (came, found["status"], found["leg"]) == ([2], "queued", 2)
    else:
        assert (parked, came, found["status"], found["leg"]) == ("again", [], "running", 1)
    told = await stage.told(at.run)
    assert told.count("run.waiting") == (parked == "parked")
    assert told.count("wait.resolved") + told.count("wait.expired") <= len(at.waits)
