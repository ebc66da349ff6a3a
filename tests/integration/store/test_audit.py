"""The audit must be able to fail: each rule is broken on purpose, and only that one is told."""

import itertools
from collections.abc import Awaitable, Callable

import pytest

from app.domain.ids import new_session_id
from app.store import workers
from app.store.audit import RULES, audit
from tests.integration.store.stage import Stage, intent

Plant = Callable[[Stage], Awaitable[str]]


async def sound(stage: Stage) -> str:
    """A run under way about which all rules hold."""
    run, fence, call = await stage.calling("pay", session=new_session_id())
    at = stage.place(run, fence, call)
    await stage.start(at)
    await stage.finish(at)
    await hold_lease(stage, "w1")
    await stage.journal(run, "PENDING", "w1")
    return run


async def hold_lease(stage: Stage, worker: str) -> None:
    found = await workers.find(stage.connection, worker)
    assert found is not None
    assert await workers.try_lock(stage.connection, workers.LEASE, found["lock"])


async def lose_its_worker(stage: Stage) -> str:
    run = await sound(stage)
    await stage.worker("w2")  # alive by its row, and without a lease
    await stage.journal(run, "PENDING", "w2")
    return run


async def ended(stage: Stage) -> str:
    run = await sound(stage)
    assert await stage.end(run, (await stage.run(run))["fence"], "succeeded") == "ended"
    return run


async def lose_its_leg(stage: Stage) -> str:
    run = await sound(stage)
    await stage.journal(run, "ERROR", "w1")
    return run


async def wait_for_nothing(stage: Stage) -> str:
    run = await sound(stage)
    await stage.do(
        "update perdure.runs set status = 'waiting', parked = true where id = %(run)s", run=run
    )
    return run


async def forget_a_held_run(stage: Stage) -> str:
    return await stage.submit(held=True)


async def enqueue_a_leg_after_the_end(stage: Stage) -> str:
    run = await ended(stage)
    await stage.journal(run, "ENQUEUED")
    return run


async def hide_the_intent(stage: Stage) -> str:
    run = await sound(stage)
    await stage.do(
        "update perdure.events set type = 'other' where run = %(run)s and type = 'call.started'",
        run=run,
    )
    return run


async def lose_a_call(stage: Stage) -> str:
    run = await sound(stage)
    await stage.do("delete from perdure.calls where run = %(run)s", run=run)
    return run


async def go_on_over_an_open_call(stage: Stage, state: str = "proposed") -> str:
    run = await sound(stage)
    await stage.begin(run, (await stage.run(run))["fence"], 2)
    await stage.do(
        "update perdure.calls set state = %(state)s where run = %(run)s", run=run, state=state
    )
    return run


async def go_on_over_a_ready_call(stage: Stage) -> str:
    return await go_on_over_an_open_call(stage, "ready")


async def lose_an_event(stage: Stage) -> str:
    run = await sound(stage)
    await stage.do("delete from perdure.events where run = %(run)s and seq = 2", run=run)
    return run


async def lose_the_last_event(stage: Stage) -> str:
    run = await sound(stage)
    await stage.do("update perdure.runs set seq = seq + 1 where id = %(run)s", run=run)
    return run


async def end_twice(stage: Stage) -> str:
    run = await ended(stage)
    await stage.do("select perdure.tell(%(run)s, array['run.failed'], array['{}'::json])", run=run)
    return run


async def end_in_silence(stage: Stage) -> str:
    run = await sound(stage)
    await stage.do(
        """update perdure.runs set status = 'succeeded', finished_at = now(), leg = leg + 1
           where id = %(run)s""",
        run=run,
    )
    return run


async def wait_after_the_end(stage: Stage) -> str:
    run = await ended(stage)
    await stage.do(
        """insert into perdure.waits (id, run, kind, question)
           values ('wait_' || substr(%(run)s, 5), %(run)s, 'input', '?')""",
        run=run,
    )
    return run


async def act_after_the_end(stage: Stage) -> str:
    run = await ended(stage)
    await stage.do("update perdure.calls set state = 'started' where run = %(run)s", run=run)
    return run


async def work_at_once(stage: Stage) -> str:
    session = new_session_id()
    for _ in range(2):
        run = await stage.submit(session=session)
        await stage.journal(run, "ENQUEUED")
    return run


BREACHES: list[tuple[str, Plant]] = [
    ("a live run has an open leg, or waits for something", lose_its_leg),
    ("a leg under way has a worker that lives", lose_its_worker),
    ("a live run has an open leg, or waits for something", wait_for_nothing),
    ("a held run has an active holder", forget_a_held_run),
    ("a run that has ended has no live leg", enqueue_a_leg_after_the_end),
    ("no outcome without an intent", hide_the_intent),
    ("each tool_use of a turn has one call", lose_a_call),
    ("a turn follows only calls that have ended", go_on_over_an_open_call),
    ("a turn follows only calls that have ended", go_on_over_a_ready_call),
    ("events are numbered without gaps", lose_an_event),
    ("events are numbered without gaps", lose_the_last_event),
    ("each ending has one terminal event", end_twice),
    ("each ending has one terminal event", end_in_silence),
    ("a run that has ended waits for nothing", wait_after_the_end),
    ("a run that has ended has no call under way", act_after_the_end),
    ("a session or target has one active run", work_at_once),
]


@pytest.mark.parametrize(("rule", "plant"), BREACHES, ids=[plant.__name__ for _, plant in BREACHES])
async def test_a_planted_breach_is_found(alone: Stage, rule: str, plant: Plant) -> None:
    await sound(alone)

    run = await plant(alone)

    found = await audit(alone.connection)
    assert [breach.split(": ")[0] for breach in found] == [rule]
    assert run[4:] in found[0]


def test_no_rule_goes_untested() -> None:
    assert {rule for rule, _ in BREACHES} == set(RULES)


async def test_sound_runs_break_no_rule(alone: Stage) -> None:
    await sound(alone)
    await ended(alone)
    await alone.submit(held=True, session=(await alone.run(await sound(alone)))["session"])
    run, fence, call = await alone.calling(session=new_session_id())
    await alone.ask(run, fence, call)
    await alone.park(run, fence)
    for replay, state in itertools.product(["read_only", "transactional"], ["succeeded", "failed"]):
        run, fence, call = await alone.calling(session=new_session_id())
        await alone.journal(run, "PENDING", "w1")
        await alone.finish(alone.place(run, fence, call), state, intent(replay))

    assert await audit(alone.connection) == []
