"""The audit must be able to fail: each rule is broken on purpose, and only that one is told."""

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import psycopg
import pytest
import pytest_asyncio

from app.domain.ids import new_session_id
from app.store.audit import RULES, audit
from tests.integration.store import breaches as one
from tests.integration.store import family_breaches as many
from tests.integration.store.family import family, line, settle
from tests.integration.store.stage import Stage, intent
from tests.support.database import Cluster

Plant = Callable[[Stage], Awaitable[str]]

BREACHES: list[tuple[str, Plant]] = [
    ("a live run has an open leg, or waits for something", one.lose_its_leg),
    ("a leg under way has a worker that lives", one.lose_its_worker),
    ("a live run has an open leg, or waits for something", one.wait_for_nothing),
    ("a held run has an active holder", one.forget_a_held_run),
    ("a parked run has no leg", one.enqueue_a_leg_while_parked),
    (
        "a run that is being cancelled waits only for a child or an undo",
        one.ask_on_while_cancelling,
    ),
    ("a run that has ended has no live leg", one.enqueue_a_leg_after_the_end),
    ("no outcome without an intent", one.hide_the_intent),
    ("each tool_use of a turn has one call", one.lose_a_call),
    ("a turn follows only calls that have ended", one.go_on_over_an_open_call),
    ("a turn follows only calls that have ended", one.go_on_over_a_ready_call),
    ("a call that waits for an answer has an open wait", one.wait_without_a_wait),
    ("an open wait holds a call that has not ended", one.ask_about_what_has_ended),
    ("a rule allows what it is for", one.allow_by_a_rule_for_another_tool),
    ("events are numbered without gaps", one.lose_an_event),
    ("events are numbered without gaps", one.lose_the_last_event),
    ("each ending has one terminal event", one.end_twice),
    ("each ending has one terminal event", one.end_in_silence),
    ("a callback hears of what it is to hear of", one.hide_a_question),
    ("a callback hears of what it is to hear of", one.hide_that_it_goes_on),
    ("a callback hears of what it is to hear of", one.hide_the_end),
    ("a run that has ended waits for nothing", one.wait_after_the_end),
    ("a run that has ended has no call under way", one.act_after_the_end),
    ("a session or target has one active run", one.work_at_once),
    ("a run waits for a child that lives", many.end_a_child_in_silence),
    ("a child that lives is waited for", many.forget_a_child),
    ("a child ends before its parent", many.end_before_a_child),
    ("a child stands below the call that asked for it", many.stand_too_deep),
    ("a call is undone at most once", many.undo_twice),
    ("only what a run has done itself is undone", many.undo_what_failed),
    ("only what a run has done itself is undone", many.undo_what_another_run_did),
    ("a run that is to undo what it did ends after that", many.end_without_undoing),
]


@pytest.fixture(scope="module")
def audited_url(cluster: Cluster) -> Iterator[str]:
    url = cluster.clone()
    yield url
    cluster.drop(url)


@pytest_asyncio.fixture
async def alone(audited_url: str) -> AsyncIterator[Stage]:
    """A database in which nothing is, and nothing stays."""
    async with (
        await psycopg.AsyncConnection.connect(audited_url, autocommit=True) as connection,
        connection.transaction(force_rollback=True),
    ):
        yield Stage(connection)


@pytest.mark.parametrize(("rule", "plant"), BREACHES, ids=[plant.__name__ for _, plant in BREACHES])
async def test_a_planted_breach_is_found(alone: Stage, rule: str, plant: Plant) -> None:
    await one.sound(alone)

    run = await plant(alone)

    found = await audit(alone.connection)
    assert [breach.split(": ")[0] for breach in found] == [rule]
    assert run.split("_")[1] in found[0]


def test_no_rule_goes_untested() -> None:
    assert {rule for rule, _ in BREACHES} == set(RULES)


async def test_sound_runs_break_no_rule(alone: Stage) -> None:
    await one.sound(alone)
    await one.ended(alone)
    await one.call_back(alone)
    await alone.submit(held=True, session=(await alone.run(await one.sound(alone)))["session"])
    await one.parked(alone)
    for replay, state in itertools.product(["read_only", "transactional"], ["succeeded", "failed"]):
        run, fence, call = await alone.calling(session=new_session_id())
        await alone.journal(run, "PENDING", "w1")
        await alone.finish(alone.place(run, fence, call), state, intent(replay))

    assert await audit(alone.connection) == []


async def test_sound_families_break_no_rule(alone: Stage) -> None:
    await one.hold_lease(alone, await alone.worker("w1"))
    await many.watching(alone)
    members = await line(alone, 3)
    await alone.journal(members[-1], "ENQUEUED")
    found = await family(alone)
    await settle(alone, found.child, await alone.take(found.child))
    await alone.journal(found.id, "ENQUEUED")
    deserted = await many.waiting(alone)
    assert await alone.end(deserted.id, None, "dead_letter") == "ended"

    assert await audit(alone.connection) == []


async def test_a_run_that_has_undone_what_it_did_breaks_no_rule(alone: Stage) -> None:
    call, undo = await many.undoing(alone)
    run = (await alone.call(call))["run"]
    assert await audit(alone.connection) == []
    await alone.ask_cancel(run, compensate=True)

    assert await alone.end(run, (await alone.run(run))["fence"], "cancelled") == "ended"

    assert (await alone.call(undo))["compensates"] == call
    assert await audit(alone.connection) == []
