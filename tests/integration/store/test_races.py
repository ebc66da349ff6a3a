"""Two transitions of one run at once: whoever comes second sees what the first did."""

import asyncio
from typing import Any

import pytest

from app.domain.ids import new_message_id, new_session_id
from app.errors import RunEnded
from app.services import cancels
from app.services import messages as talk
from app.services.context import Caller, Services
from app.store import messages, runs, sessions, waits, workers
from app.store.db import row, rows
from tests.integration.store.gating import one_behind_the_other
from tests.integration.store.stage import ALLOW, DENY, Stage, intent

ROUNDS = 150
ANN = Caller("ann")


async def asking(stage: Stage) -> tuple[str, int, str]:
    """A run about to park on an approval: the run, its fence, the wait."""
    run, fence, call = await stage.calling()
    return run, fence, await stage.ask(run, fence, call)


async def pausing(stage: Stage) -> tuple[str, int, str]:
    """A run about to park on a timer that is due."""
    run, fence, call = await stage.calling()
    at = stage.place(run, fence, call)
    await stage.hold(at, "timer", intent("read_only"), seconds=0.0, attempt_ended="raised")
    return run, fence, await stage.open_wait(call)


async def backing_off(stage: Stage) -> tuple[str, int, str]:
    """A run about to park until it may ask the model again, which is now."""
    run = await stage.submit()
    fence = await stage.take(run)
    await stage.begin(run, fence)
    await stage.fail(run, fence, retry=0.0)
    found = await stage.one("select id from perdure.waits where run = %(run)s", run=run)
    return run, fence, found["id"]


async def is_woken_once(stage: Stage, run: str, parked: str, leg: int | None) -> bool:
    """Not parked with nothing to wake it, and not woken twice."""
    status = (await stage.run(run))["status"]
    if parked == "parked":
        return leg == 2 and status == "queued"
    return parked == "again" and leg is None and status == "running"


@pytest.mark.parametrize("said", [ALLOW, DENY], ids=["allow", "deny"])
@pytest.mark.parametrize("order", ["park first", "resolve first"])
async def test_a_resolution_is_never_lost_to_a_park_that_began_before_it(
    stage: Stage, other: Stage, gate: Stage, order: str, said: str
) -> None:
    run, fence, wait = await asking(stage)

    async def park() -> str:
        return await stage.park(run, fence)

    async def resolve() -> Any:  # noqa: ANN401 - a row
        return await other.resolve(wait, said)

    if order == "park first":
        parked, answer = await one_behind_the_other(gate, run, park, resolve)
    else:
        answer, parked = await one_behind_the_other(gate, run, resolve, park)

    assert parked == ("parked" if order == "park first" else "again")
    assert await is_woken_once(stage, run, parked, answer["leg"])


async def test_no_wake_up_is_lost_in_many_rounds(stage: Stage, other: Stage) -> None:
    seen = set()
    for number in range(ROUNDS):
        run, fence, wait = await asking(stage)
        said = (ALLOW, DENY)[number // 2 % 2]
        park, resolve = stage.park(run, fence), other.resolve(wait, said)
        if number % 2:
            parked, answer = await asyncio.gather(park, resolve)
        else:
            answer, parked = await asyncio.gather(resolve, park)
        assert await is_woken_once(stage, run, parked, answer["leg"])
        seen.add(parked)
    assert seen == {"parked", "again"}


async def test_no_timer_is_lost_in_many_rounds(stage: Stage, other: Stage) -> None:
    for number in range(ROUNDS):
        run, fence, wait = await (pausing, backing_off)[number // 2 % 2](stage)
        park, fire = stage.park(run, fence), waits.expire(other.connection, wait)
        if number % 2:
            parked, woken = await asyncio.gather(park, fire)
        else:
            woken, parked = await asyncio.gather(fire, park)
        if woken["run"] is None:  # it passed over the locked run, and comes again
            woken = await waits.expire(other.connection, wait)
        assert await is_woken_once(stage, run, parked, woken["leg"])


async def test_of_contrary_resolutions_exactly_one_wins(stage: Stage, other: Stage) -> None:
    for number in range(ROUNDS // 3):
        run, fence, wait = await asking(stage)
        await stage.park(run, fence)
        pair = [(stage, ALLOW), (other, DENY)][:: 1 if number % 2 else -1]

        answers = await asyncio.gather(*(by.resolve(wait, said) for by, said in pair))

        assert sorted(answer["verdict"] for answer in answers) == ["other", "resolved"]
        assert sorted(answer["leg"] or 0 for answer in answers) == [0, 2]
        won = next(said for (_, said), answer in zip(pair, answers, strict=True) if answer["leg"])
        (call,) = await rows(
            stage.connection, "select state from perdure.calls where run = %(run)s", run=run
        )
        assert call["state"] == ("ready" if won == ALLOW else "denied")


async def test_events_are_numbered_without_gaps_whoever_tells_them(
    stage: Stage, other: Stage
) -> None:
    run = await stage.submit()
    fence = await stage.take(run)

    async def talk_to_it() -> None:
        for number in range(ROUNDS // 3):
            async with other.connection.transaction():
                await runs.lock(other.connection, run)
                await messages.insert(other.connection, new_message_id(), run, str(number))
                await other.do(
                    "select perdure.tell(%(run)s, array['message.queued'], array['{}'::json])",
                    run=run,
                )

    async def carry_it() -> None:
        for number in range(1, ROUNDS // 5):
            await stage.turn(run, fence, number, "pay", "pay")

    await asyncio.gather(talk_to_it(), carry_it())

    told = await stage.told(run)
    assert (told.count("message.queued"), told.count("model.completed")) == (50, 29)


async def test_events_are_dated_in_the_order_of_their_numbers(stage: Stage, other: Stage) -> None:
    run, fence, call = await stage.calling()
    async with other.connection.transaction():
        await other.do("select now()")  # a transaction that began long before it told anything
        await stage.finish(stage.place(run, fence, call, 0), "failed")
        await runs.lock(other.connection, run)
        await other.do("select perdure.tell(%(run)s, array['x'], array['{}'::json])", run=run)

    found = await rows(
        stage.connection, "select at from perdure.events where run = %(run)s order by seq", run=run
    )
    dates = [each["at"] for each in found]
    assert dates == sorted(dates)


@pytest.mark.parametrize("order", ["message first", "end first"])
async def test_a_message_is_never_accepted_and_dropped(
    stage: Stage, gate: Stage, services: Services, order: str
) -> None:
    run = await stage.submit()
    fence = await stage.take(run)

    async def send() -> Any:  # noqa: ANN401 - JSON
        return await talk.send(services, run, "wait", ANN)

    async def end() -> str:
        return await stage.end(run, fence, "succeeded")

    if order == "message first":
        sent, ended = await one_behind_the_other(gate, run, send, end)
        assert (sent["state"], ended) == ("queued", "messages")
    else:
        ended, sent = await one_behind_the_other(gate, run, end, send)
        assert ended == "ended"
        assert isinstance(sent, RunEnded)
    stored = await rows(
        stage.connection, "select id from perdure.messages where run = %(run)s", run=run
    )
    assert len(stored) == (order == "message first")


@pytest.mark.parametrize("order", ["cancel first", "end first"])
async def test_a_cancel_that_was_accepted_holds(
    stage: Stage, gate: Stage, services: Services, order: str
) -> None:
    run = await stage.submit()
    fence = await stage.take(run)

    async def cancel() -> None:
        await cancels.cancel(services, run, ANN, None)

    async def end() -> str:
        return await stage.end(run, fence, "succeeded")

    if order == "cancel first":
        cancelled, ended = await one_behind_the_other(gate, run, cancel, end)
        assert (cancelled, ended) == (None, "cancel")
        assert await stage.end(run, fence, "cancelled") == "ended"
    else:
        ended, cancelled = await one_behind_the_other(gate, run, end, cancel)
        assert ended == "ended"
        assert isinstance(cancelled, RunEnded)
        assert "run.cancelling" not in await stage.told(run)


async def test_a_run_that_two_holders_let_go_at_once_is_found_by_the_janitor(
    stage: Stage, other: Stage
) -> None:
    """Each sees the other's run as still active; neither holds what the other has locked."""
    session, target = new_session_id(), new_session_id()
    one, two = await stage.submit(session=session), await stage.submit(target=target)
    both = await stage.submit(session=session, target=target, held=True)
    async with stage.connection.transaction(), other.connection.transaction():
        await stage.end(one, None, "cancelled")
        await other.end(two, None, "cancelled")
        assert await sessions.release_held(stage.connection, session, None) == []
        assert (
            await sessions.release_held(other.connection, (await other.run(two))["session"], target)
            == []
        )

    forgotten = {each["run"]: each for each in await workers.forgotten(stage.connection)}
    assert both in forgotten
    freed = await sessions.release_held(
        stage.connection, forgotten[both]["session"], forgotten[both]["target"]
    )
    assert [each["run"] for each in freed] == [both]
    assert (
        await row(stage.connection, "select from perdure.runs where id = %(x)s and held", x=both)
        is None
    )
