"""A fork shares the first turns of a run, with all that came of them, and goes its own way."""

from typing import Any

import pytest
import pytest_asyncio

from app.domain.ids import idempotency_key, new_message_id, new_run_id, new_session_id
from app.store import calls, messages, runs, sessions, turns
from app.store.db import Row, rows
from tests.integration.store.family import family, paid, register
from tests.integration.store.stage import ALLOW, HAPPENED, PRICE, Stage, intent

pytestmark = pytest.mark.usefixtures("audited_by_hand")


@pytest_asyncio.fixture(autouse=True)
async def _agent(stage: Stage) -> None:
    await register(stage, "undoing")


async def branch(stage: Stage, source: str, turn: int) -> tuple[str, str]:
    """The verdict, and the new run."""
    run, session = new_run_id(), new_session_id()
    async with stage.connection.transaction():
        await sessions.make(stage.connection, session, None)
        verdict = await runs.fork(stage.connection, source, turn, run, session, "f" * 32, "ann")
    return verdict, run


async def fork(stage: Stage, source: str, turn: int) -> str:
    verdict, run = await branch(stage, source, turn)
    assert verdict == "forked"
    return run


async def talked(stage: Stage, **values: Any) -> tuple[str, int]:
    """A run of three turns, under way: two pay, the last one says something."""
    run = await stage.submit(agent="undoing", **values)
    fence = await stage.take(run)
    await paid(stage, run, fence, 1, "pay", "look")
    await messages.insert(stage.connection, new_message_id(), run, "and hurry")
    await paid(stage, run, fence, 2, "pay")
    await stage.turn(run, fence, 3)
    return run, fence


async def of(stage: Stage, table: str, run: str) -> list[Row]:
    queries = {
        "turns": "select * from perdure.turns where run = %(run)s order by number",
        "calls": "select * from perdure.calls where run = %(run)s order by turn, index",
        "messages": "select * from perdure.messages where run = %(run)s order by place",
    }
    found = await stage.connection.execute(queries[table], {"run": run})
    names = [column.name for column in found.description or ()]
    return [dict(zip(names, each, strict=True)) for each in await found.fetchall()]


def less(found: list[Row], *names: str) -> list[Row]:
    return [{name: row[name] for name in row if name not in names} for row in found]


async def test_turns_calls_and_messages_are_copied_up_to_the_turn(stage: Stage) -> None:
    source, _ = await talked(stage)

    run = await fork(stage, source, 2)

    for table, count, own in (
        ("turns", 2, ("run",)),
        ("calls", 3, ("run", "id", "root", "session", "origin")),
        ("messages", 1, ("run", "id", "place")),
    ):
        there, here = await of(stage, table, source), await of(stage, table, run)
        assert len(here) == count
        assert less(here, *own) == less(there[:count], *own)


async def test_a_fork_is_a_run_of_its_own(stage: Stage) -> None:
    source, _ = await talked(stage, deadline=None, limits={"turns": 9})
    await stage.do("update perdure.runs set deadline = now() where id = %(run)s", run=source)

    run = await fork(stage, source, 2)

    there, here = await stage.run(source), await stage.run(run)
    same = ("agent", "agent_version", "input", "limits", "metadata", "priority", "queue_key")
    assert {name: here[name] for name in same} == {name: there[name] for name in same}
    assert (here["status"], here["leg"], here["turns"]) == ("queued", 1, 2)
    assert (here["root"], here["forked_from"], here["parent"]) == (run, source, None)
    assert here["session"] != there["session"]
    assert (here["deadline"], here["target"], here["cost_usd"]) == (None, None, 0)
    assert await stage.told(run) == ["run.queued"]


async def test_copies_name_the_run_that_made_the_call(stage: Stage) -> None:
    source, _ = await talked(stage)

    first = await fork(stage, source, 2)
    second = await fork(stage, first, 1)

    assert {each["origin"] for each in await of(stage, "calls", first)} == {source}
    assert {each["origin"] for each in await of(stage, "calls", second)} == {source}
    assert (await stage.run(second))["forked_from"] == first


async def test_the_source_is_left_as_it_was(stage: Stage) -> None:
    source, fence = await talked(stage)
    before = [await stage.run(source), *await of(stage, "calls", source)]
    told = await stage.told(source)

    await fork(stage, source, 3)

    assert [await stage.run(source), *await of(stage, "calls", source)] == before
    assert await stage.told(source) == told
    assert await stage.end(source, fence, "succeeded") == "ended"


async def test_a_fork_goes_on_after_the_shared_turns(stage: Stage) -> None:
    source, _ = await talked(stage)
    run = await fork(stage, source, 2)

    fence = await stage.take(run)
    looked = await runs.look(stage.connection, run)
    assert (looked["turn"], looked["stop_reason"]) == (2, "tool_use")
    assert [call["state"] for call in looked["calls"]] == ["succeeded"]
    assert await stage.begin(run, fence, 2) == "answered"
    (call,) = await paid(stage, run, fence, 3, "pay")

    assert (await stage.call(call))["origin"] is None
    assert idempotency_key(run, 3, 0) != idempotency_key(source, 3, 0)
    assert (await stage.run(run))["cost_usd"] == PRICE


async def test_shared_turns_and_calls_count_against_the_limits(stage: Stage) -> None:
    source, _ = await talked(stage, limits={"turns": 3, "calls": 3})
    run = await fork(stage, source, 2)
    fence = await stage.take(run)

    assert not await turns.asks_too_much(stage.connection, run)
    await paid(stage, run, fence, 3, "pay")
    assert await turns.asks_too_much(stage.connection, run)
    assert await stage.begin(run, fence, 4) == "limit_turns"


async def test_a_fork_undoes_only_what_it_did_itself(stage: Stage) -> None:
    source, _ = await talked(stage)
    run = await fork(stage, source, 2)
    fence = await stage.take(run)
    (own,) = await paid(stage, run, fence, 3, "pay")
    await stage.ask_cancel(run, compensate=True)

    found = await calls.next_compensation(stage.connection, run, fence)

    undo = await stage.call(f"call_{run[4:]}_{found['turn']}_{found['index']}")
    assert undo["compensates"] == own
    at = stage.place(run, fence, undo["id"])
    await stage.start(at)
    await stage.finish(at)
    assert await stage.end(run, fence, "cancelled") == "ended"


async def test_what_was_undone_is_not_part_of_a_fork(stage: Stage) -> None:
    source = await stage.submit(agent="undoing")
    fence = await stage.take(source)
    await paid(stage, source, fence, 1, "pay")
    await stage.ask_cancel(source, compensate=True)
    await calls.next_compensation(stage.connection, source, fence)

    run = await fork(stage, source, 1)  # though the undo has not ended

    assert [each["turn"] for each in await of(stage, "calls", run)] == [1]


@pytest.mark.parametrize("turn", [0, 3, 4, -1])
async def test_only_a_finished_turn_is_forked(stage: Stage, turn: int) -> None:
    source = await stage.submit()
    fence = await stage.take(source)
    await paid(stage, source, fence, 1, "pay")
    await stage.turn(source, fence, 2)
    await stage.begin(source, fence, 3)

    assert (await branch(stage, source, turn))[0] == "no_turn"


async def test_a_run_that_never_was_is_not_forked(stage: Stage) -> None:
    verdict, run = await branch(stage, "run_nobody", 1)

    assert verdict == "missing"
    assert await rows(stage.connection, "select from perdure.runs where id = %(r)s", r=run) == []


@pytest.mark.parametrize("state", ["proposed", "waiting", "ready", "started", "outcome_unknown"])
async def test_a_turn_with_a_call_that_has_not_ended_is_not_forked(
    stage: Stage, state: str
) -> None:
    source, fence, call = await stage.calling("pay", "pay")
    beside = stage.place(source, fence, f"{call[:-1]}1")
    await stage.finish(beside, what=intent("read_only"))
    if state in ("waiting", "ready"):
        wait = await stage.ask(source, fence, call)
        if state == "ready":
            await stage.resolve(wait, ALLOW)
    elif state == "started":
        await stage.start(stage.place(source, fence, call))
    elif state == "outcome_unknown":
        await stage.lose(source, fence, call, ask=True)
    assert (await stage.call(call))["state"] == state

    assert (await branch(stage, source, 1))[0] == "unfinished"


async def test_a_run_that_waits_for_its_child_is_forked_where_nothing_is_open(
    stage: Stage,
) -> None:
    found = await family(stage)

    assert (await branch(stage, found.id, 1))[0] == "unfinished"


async def test_a_copied_unknown_outcome_guards_its_tool_in_the_fork_alone(stage: Stage) -> None:
    source, fence, call = await stage.calling()
    await stage.lose(source, fence, call)
    run = await fork(stage, source, 1)
    own = await stage.take(run)
    await stage.turn(run, own, 2, "pay")
    assert (await calls.load(stage.connection, run, 2, 0))["guarded"]

    await calls.settle(stage.connection, (await of(stage, "calls", run))[0]["id"], HAPPENED, "ann")

    assert not (await calls.load(stage.connection, run, 2, 0))["guarded"]
    assert (await stage.call(call))["state"] == "outcome_unknown"


async def test_what_was_found_out_since_is_told_to_the_fork(stage: Stage) -> None:
    source, fence, call = await stage.calling()
    await stage.lose(source, fence, call)
    await stage.turn(source, fence, 2)
    await calls.settle(stage.connection, call, HAPPENED, "ann")

    of_first, of_second = await fork(stage, source, 1), await fork(stage, source, 2)

    told = [(await of(stage, "calls", run))[0]["told_unknown"] for run in (of_first, of_second)]
    assert told == [False, True]
