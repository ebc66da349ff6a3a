"""Rules of the audit about runs that start others, and that undo what they did."""

from app.domain.ids import new_run_id, new_session_id
from tests.integration.store.breaches import hold_lease
from tests.integration.store.family import Parent, family, paid, register, undo_of
from tests.integration.store.stage import Stage


async def waiting(stage: Stage) -> Parent:
    """A parked parent and its queued child."""
    found = await family(stage)
    await stage.journal(found.child, "ENQUEUED")
    return found


async def watching(stage: Stage) -> Parent:
    """The same before the parent parks."""
    found = await family(stage, parked=False)
    await hold_lease(stage, "w1")
    await stage.journal(found.id, "PENDING", "w1")
    await stage.journal(found.child, "ENQUEUED")
    return found


async def end_a_child_in_silence(stage: Stage) -> str:
    found = await waiting(stage)
    await stage.do("delete from dbos.workflow_status where workflow_uuid like %(x)s", x=leg(found))
    assert await stage.end(found.child, None, "failed", reason="internal") == "ended"
    return await stage.open_wait(found.call)


def leg(found: Parent) -> str:
    return f"{found.child}:%"


async def forget_a_child(stage: Stage) -> str:
    found = await watching(stage)
    await stage.do(
        """with forgotten as (update perdure.waits set state = 'cancelled', resolved_at = now()
                              where call = %(call)s)
           update perdure.calls set state = 'failed', finished_at = now() where id = %(call)s""",
        call=found.call,
    )
    return found.child


async def end_before_a_child(stage: Stage) -> str:
    found = await waiting(stage)
    assert await stage.end(found.id, None, "dead_letter") == "ended"
    await stage.do(
        """with told as (update perdure.events set type = 'run.failed'
                         where run = %(run)s and type = 'run.dead_letter')
           update perdure.runs set status = 'failed' where id = %(run)s""",
        run=found.id,
    )
    return found.child


async def stand_too_deep(stage: Stage) -> str:
    found = await waiting(stage)
    await stage.do("update perdure.runs set depth = 2 where id = %(run)s", run=found.child)
    return found.child


async def undoing(stage: Stage) -> tuple[str, str]:
    """A run that has done something, and the call that undoes it."""
    await register(stage, "undoing")
    run = await stage.submit(agent="undoing", session=new_session_id())
    (call,) = await paid(stage, run, await stage.take(run), 1, "pay")
    await hold_lease(stage, "w1")
    await stage.journal(run, "PENDING", "w1")
    undo = undo_of(run, 2)
    await add_undo(stage, undo, call, 2)
    return call, undo


async def add_undo(stage: Stage, undo: str, call: str, turn: int) -> None:
    await stage.do(
        """insert into perdure.calls (id, run, turn, index, root, session, provider_id, tool,
               proposed, state, finished_at, compensates)
           select %(undo)s, run, %(turn)s, 0, root, session, '', tool, proposed, 'failed', now(), id
           from perdure.calls where id = %(call)s""",
        undo=undo,
        call=call,
        turn=turn,
    )


async def undo_twice(stage: Stage) -> str:
    call, undo = await undoing(stage)
    await stage.do("drop index perdure.calls_compensating")
    await add_undo(stage, f"{undo}_again", call, 3)
    return call


async def undo_what_failed(stage: Stage) -> str:
    call, _ = await undoing(stage)
    await stage.do("update perdure.calls set state = 'failed' where id = %(call)s", call=call)
    return call


async def undo_what_another_run_did(stage: Stage) -> str:
    call, _ = await undoing(stage)
    origin = await stage.submit(id=new_run_id())
    assert await stage.end(origin, None, "cancelled") == "ended"
    await stage.do(
        "update perdure.calls set origin = %(origin)s where id = %(call)s", origin=origin, call=call
    )
    return call


async def end_without_undoing(stage: Stage) -> str:
    call, undo = await undoing(stage)
    run = (await stage.call(call))["run"]
    await stage.do("delete from perdure.calls where id = %(undo)s", undo=undo)
    assert await stage.cancel(run, (await stage.run(run))["fence"]) == "ended"
    await stage.do("update perdure.runs set compensate = true where id = %(run)s", run=run)
    return str(run)
