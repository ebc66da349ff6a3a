"""Rules of the audit, broken on purpose about one run: each answers what the breach is to name."""

from app.domain.ids import new_session_id
from app.store import workers
from tests.integration.store.stage import ALLOW, Stage


async def sound(stage: Stage) -> str:
    """A run under way about which all rules hold."""
    run, fence, call = await stage.calling("pay", session=new_session_id())
    at = stage.place(run, fence, call)
    await stage.start(at)
    await stage.finish(at)
    await hold_lease(stage, "w1")
    await stage.journal(run, "PENDING", "w1")
    return run


async def parked(stage: Stage) -> str:
    """A run that waits for a person."""
    run, fence, call = await stage.calling("pay", session=new_session_id())
    await stage.ask(run, fence, call)
    assert await stage.park(run, fence) == "parked"
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
    run = await parked(stage)
    await stage.do(
        """with closed as (update perdure.waits set state = 'cancelled', resolved_at = now()
                           where run = %(run)s)
           update perdure.calls set state = 'ready' where run = %(run)s""",
        run=run,
    )
    return run


async def forget_a_held_run(stage: Stage) -> str:
    return await stage.submit(held=True)


async def enqueue_a_leg_after_the_end(stage: Stage) -> str:
    run = await ended(stage)
    await stage.journal(run, "ENQUEUED")
    return run


async def call_back(stage: Stage) -> str:
    """A run whose callback has heard of a question, of its answer and of the end."""
    run, fence, call = await stage.calling(
        "pay", session=new_session_id(), callback="https://hooks.example/run"
    )
    await stage.ask(run, fence, call)
    assert await stage.park(run, fence) == "parked"
    await stage.resolve(await stage.open_wait(call), ALLOW)
    at = stage.place(run, await stage.take(run), call)
    await stage.start(at)
    await stage.finish(at)
    assert await stage.end(run, at.fence, "succeeded") == "ended"
    return run


async def hide_a_question(stage: Stage) -> str:
    return await _hide(stage, "run.waiting")


async def hide_the_end(stage: Stage) -> str:
    return await _hide(stage, "run.succeeded")


async def hide_that_it_goes_on(stage: Stage) -> str:
    return await _hide(stage, "run.resumed")


async def _hide(stage: Stage, news: str) -> str:
    run = await call_back(stage)
    await stage.do(
        "delete from perdure.deliveries where run = %(run)s and type = %(news)s",
        run=run,
        news=news,
    )
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


async def enqueue_a_leg_while_parked(stage: Stage) -> str:
    run = await parked(stage)
    await stage.journal(run, "ENQUEUED")
    return run


async def ask_on_while_cancelling(stage: Stage) -> str:
    run = await parked(stage)
    await stage.do("update perdure.runs set status = 'cancelling' where id = %(run)s", run=run)
    return run


async def wait_without_a_wait(stage: Stage) -> str:
    run, _, call = await stage.calling("pay", session=new_session_id())
    await hold_lease(stage, "w1")
    await stage.journal(run, "PENDING", "w1")
    await stage.do("update perdure.calls set state = 'waiting' where id = %(call)s", call=call)
    return call


async def ask_about_what_has_ended(stage: Stage) -> str:
    run = await sound(stage)
    await stage.do(
        """insert into perdure.waits (id, run, call, kind, question)
           select 'wait_' || substr(id, 6), run, id, 'outcome', '?'
           from perdure.calls where run = %(run)s""",
        run=run,
    )
    return run


async def allow_by_a_rule_for_another_tool(stage: Stage) -> str:
    run, fence, call = await stage.calling(session=new_session_id())
    await hold_lease(stage, "w1")
    await stage.journal(run, "PENDING", "w1")
    wait = await stage.ask(run, fence, call)
    await stage.resolve(wait, ALLOW)
    await stage.do(
        """with rule as (
               insert into perdure.rules
                   (id, scope, agent, session, run, tool, conditions, wait, author, made_via)
               select 'rule_' || id, 'run', agent, session, id, 'look', '{}', %(wait)s, 'ann', '-'
               from perdure.runs where id = %(run)s returning id)
           update perdure.waits set resolved_via = 'rule', resolution = json_build_object(
               'decision', 'allow', 'rule', (select id from rule)) where id = %(wait)s""",
        run=run,
        wait=wait,
    )
    return wait
