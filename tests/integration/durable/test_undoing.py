"""Hooks that undo calls, run by a leg's own hands over the real ledger."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
import sqlalchemy

from app import Agent, ToolContext, ToolError, tool
from app.durable import ledger, tool_step
from app.durable.execution import Bench
from app.services.context import Services
from app.store import agents, runs, waits
from app.store.db import row
from tests.integration.store.family import undo_of
from tests.integration.store.legwork import benched, execute
from tests.integration.store.stage import Stage, intent

# What the hooks saw; and what the next ones are to raise, if anything.
SEEN: list[ToolContext] = []
FAILURES: list[Exception] = []
BEGUN, GATE = asyncio.Event(), asyncio.Event()


async def note(ctx: ToolContext, args: dict[str, Any]) -> dict[str, str]:
    SEEN.append(ctx)
    if FAILURES:
        raise FAILURES.pop(0)
    return {"undone": ctx.done.idempotency_key if ctx.done else "?"}


async def wait(ctx: ToolContext, args: dict[str, Any]) -> None:
    SEEN.append(ctx)
    BEGUN.set()
    await GATE.wait()


async def erase(ctx: ToolContext, args: dict[str, Any]) -> None:
    statement = sqlalchemy.text("insert into notes (run, text) values (:run, 'undone')")
    await ctx.connection.execute(statement, {"run": ctx.run_id})
    if FAILURES:
        raise FAILURES.pop(0)


@tool(replay="idempotent", compensate=note)
async def pay(ref: str, amount: int) -> None: ...


@tool(replay="at_most_once", compensate=note)
async def book(ref: str, amount: int) -> None: ...


@tool(replay="at_most_once", compensate=wait)
async def hold(ref: str, amount: int) -> None: ...


@tool(replay="transactional", compensate=erase)
async def write(ctx: ToolContext, ref: str, amount: int) -> None: ...


CLERK = Agent(name="clerk", model="claude-test", tools=[pay, book, hold, write])


@pytest_asyncio.fixture
async def bench(stage: Stage, services: Services) -> AsyncIterator[Bench]:
    SEEN.clear()
    FAILURES.clear()
    BEGUN.clear()
    GATE.clear()
    await agents.register(stage.connection, CLERK.name, "v1", CLERK.definition())
    async with benched(services, [CLERK]) as bench:
        yield bench


async def done(stage: Stage, bench: Bench, *tools: str) -> tuple[str, int]:
    """A run that is to undo what these tools did: the run, its fence."""
    run = await stage.submit(agent="clerk")
    fence = await stage.take(run)
    for index, call in enumerate(await stage.turn(run, fence, 1, *tools)):
        declared = CLERK.tool(tools[index])
        assert declared is not None
        at, what = stage.place(run, fence, call), intent(declared.replay)
        if declared.replay != "transactional":
            assert await stage.start(at, what) == "ok"
        assert await stage.finish(at, what=what, result={"id": index}) == "ok"
    await stage.ask_cancel(run, compensate=True)
    await execute(bench, run, fence)
    return run, fence


async def undo(run: str) -> str | None:
    """One step: the phase of the call that it drove, if any was left."""
    place = await ledger.next_compensation()
    return None if place is None else str((await tool_step.carry(run, *place))["phase"])


async def test_hooks_run_one_after_the_other_with_what_they_are_to_undo(
    stage: Stage, bench: Bench
) -> None:
    run, fence = await done(stage, bench, "pay", "book")

    assert [await undo(run) for _ in range(3)] == ["done", "done", None]

    assert [(each.done.idempotency_key, each.done.result) for each in SEEN if each.done] == [
        (f"{run}/1/1", {"id": 1}),
        (f"{run}/1/0", {"id": 0}),
    ]
    assert [each.idempotency_key for each in SEEN] == [f"{run}/2/0", f"{run}/2/1"]
    made = await stage.call(undo_of(run, 2))
    assert (made["state"], made["result"]) == ("succeeded", {"undone": f"{run}/1/1"})
    assert await stage.end(run, fence, "cancelled") == "ended"


async def test_a_declared_failure_of_a_hook_is_told_and_the_others_run(
    stage: Stage, bench: Bench
) -> None:
    run, _ = await done(stage, bench, "pay", "book")
    FAILURES.append(ToolError("Too late."))

    assert [await undo(run) for _ in range(3)] == ["done", "done", None]

    states = [(await stage.call(undo_of(run, 2, index)))["state"] for index in (0, 1)]
    assert states == ["failed", "succeeded"]
    told = [each for each in await stage.told(run) if each.startswith("compensation")]
    assert told == [
        "compensation.started",
        "compensation.failed",
        "compensation.started",
        "compensation.succeeded",
    ]


async def pass_the_pause(stage: Stage, run: str) -> None:
    """Lets the timer of the next attempt go off."""
    wait = await stage.open_wait(undo_of(run, 2))
    await stage.do(
        "update perdure.waits set deadline = clock_timestamp() where id = %(wait)s", wait=wait
    )
    await waits.expire(stage.connection, wait)


async def test_an_idempotent_hook_runs_again_under_its_key_after_a_pause(
    stage: Stage, bench: Bench
) -> None:
    run, _ = await done(stage, bench, "pay")
    FAILURES.append(ConnectionError("bank is away"))

    assert await undo(run) == "held"
    assert (await runs.look(stage.connection, run))["compensation"] == "held"
    await pass_the_pause(stage, run)
    assert await undo(run) == "done"

    assert [each.attempt for each in SEEN] == [1, 2]
    assert len({each.idempotency_key for each in SEEN}) == 1
    assert (await stage.call(undo_of(run, 2)))["state"] == "succeeded"


async def test_a_hook_that_fails_to_the_last_is_left_unknown(stage: Stage, bench: Bench) -> None:
    run, fence = await done(stage, bench, "pay")
    FAILURES.extend(ConnectionError("bank is away") for _ in range(pay.attempts))

    for _ in range(pay.attempts - 1):
        assert await undo(run) == "held"
        await pass_the_pause(stage, run)
    assert await undo(run) == "done"

    assert (await stage.call(undo_of(run, 2)))["state"] == "outcome_unknown"
    assert (await stage.told(run))[-1] == "compensation.failed"
    assert await undo(run) is None
    assert await stage.end(run, fence, "cancelled") == "ended"


async def test_an_at_most_once_hook_never_runs_twice_and_nobody_is_asked(
    stage: Stage, bench: Bench
) -> None:
    run, _ = await done(stage, bench, "book")
    FAILURES.append(ConnectionError("bank is away"))

    assert await undo(run) == "done"

    assert len(SEEN) == 1
    found = await stage.call(undo_of(run, 2))
    assert (found["state"], found["finished_at"] is None) == ("outcome_unknown", False)
    asked = await row(stage.connection, "select from perdure.waits where run = %(run)s", run=run)
    assert asked is None


@pytest.mark.parametrize(
    ("name", "attempts", "state"), [("pay", 1, "succeeded"), ("book", 0, "outcome_unknown")]
)
async def test_a_hook_whose_execution_is_gone_is_judged_by_its_policy(
    stage: Stage, bench: Bench, name: str, attempts: int, state: str
) -> None:
    run, fence = await done(stage, bench, name)
    await ledger.next_compensation()
    what = intent("idempotent" if name == "pay" else "at_most_once")
    assert await stage.start(stage.place(run, fence, undo_of(run, 2)), what) == "ok"
    await execute(bench, run, await stage.take(run, "w1"))

    assert await undo(run) == "done"

    assert len(SEEN) == attempts
    assert (await stage.call(undo_of(run, 2)))["state"] == state


@pytest.mark.parametrize("fails", [False, True])
async def test_what_a_transactional_hook_did_is_there_with_its_outcome_or_not_at_all(
    stage: Stage, bench: Bench, fails: bool
) -> None:
    run, _ = await done(stage, bench, "write")
    if fails:
        FAILURES.append(ConnectionError("x"))

    assert await undo(run) == ("held" if fails else "done")

    found = await stage.one("select count(*) from notes where run = %(run)s", run=run)
    assert found["count"] == (0 if fails else 1)
    state = (await stage.call(undo_of(run, 2)))["state"]
    assert state == ("ready" if fails else "succeeded")


async def test_a_hook_that_is_gone_since_a_deploy_is_told_as_failed(
    stage: Stage, services: Services, bench: Bench
) -> None:
    run, fence = await done(stage, bench, "pay", "book")
    bench.registry = type(bench.registry).of([])

    assert [await undo(run) for _ in range(3)] == ["done", "done", None]

    found = await stage.call(undo_of(run, 2))
    assert (found["state"], found["result"]["error"]) == ("failed", "tool_missing")
    assert await stage.end(run, fence, "cancelled") == "ended"


async def test_no_cancel_is_meant_for_a_body_that_undoes(stage: Stage, bench: Bench) -> None:
    run, _ = await done(stage, bench, "hold")

    undoing = asyncio.ensure_future(undo(run))
    await BEGUN.wait()
    (body,) = bench.bodies.in_hand()
    assert (body.run, body.undoes) == (run, True)
    assert not SEEN[0].cancelled
    GATE.set()

    assert await undoing == "done"
    assert (await stage.call(undo_of(run, 2)))["state"] == "succeeded"
