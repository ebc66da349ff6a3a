"""Runs and their legs: submission, taking, parking, ending."""

from typing import Any, LiteralString

from app.domain.canonical import encode
from app.store.db import Connection, Row, call, row, rows, verdict

LAST_QUEUED: LiteralString = """
    select from perdure.runs where queue_key = %(queue_key)s and status = 'queued'
    offset %(limit)s - 1 limit 1
"""


async def insert(connection: Connection, run: dict[str, Any], *, held: bool) -> None:
    await row(
        connection,
        """insert into perdure.runs
               (id, root, agent, agent_version, session, target, input, metadata, limits,
                priority, queue_key, deadline, callback, trace_id, held)
           values (%(id)s, %(id)s, %(agent)s, %(agent_version)s, %(session)s, %(target)s,
               %(input)s, %(metadata)s, %(limits)s,
               %(priority)s, %(queue_key)s, %(deadline)s, %(callback)s, %(trace_id)s, %(held)s)
           returning id""",
        **run,
        held=held,
    )


async def take(
    connection: Connection, run: str, leg: int, worker: str, execution: str
) -> tuple[str, int]:
    """('taken', fence), or why not: 'moved' or 'dead'."""
    found = await call(connection, "take_run", run=run, leg=leg, worker=worker, execution=execution)
    return found["verdict"], found["fence"] or 0


async def look(connection: Connection, run: str) -> Row:
    """What a position is made of: the last turn, where its calls stand, and what has come in."""
    found = await row(
        connection,
        """select r.turns as turn, t.stop_reason, r.status = 'cancelling' as cancelling,
               perdure.has_live_child(r.id) as children,
               case when r.status = 'cancelling' and r.compensate then case
                   when perdure.has_held_compensation(r.id) then 'held'
                   when perdure.has_to_compensate(r.id) then 'todo' end end as compensation,
               exists (select from perdure.waits w
                       where w.run = r.id and w.call is null and w.state = 'open') as backing_off,
               exists (select from perdure.messages m
                       where m.run = r.id and m.state = 'queued') as messages,
               (select coalesce(json_agg(json_build_object('state', c.state, 'tool', c.tool,
                   'held', exists (select from perdure.waits w
                                   where w.call = c.id and w.state = 'open'))
                   order by c.index), '[]')
                from perdure.calls c where c.run = r.id and c.turn = r.turns) as calls
           from perdure.runs r left join perdure.turns t on t.run = r.id and t.number = r.turns
           where r.id = %(run)s""",
        run=run,
    )
    assert found is not None
    return found


async def facts(connection: Connection, run: str) -> Row:
    """What a leg needs to know of its run from the start."""
    found = await row(
        connection,
        """select r.id, r.session, r.root, r.agent, r.agent_version, r.limits, r.parent,
               r.depth, r.status = 'cancelling' as cancelling,
               r.compensate and perdure.has_to_compensate(r.id) as compensate, v.definition
           from perdure.runs r
           join perdure.agent_versions v on v.agent = r.agent and v.version = r.agent_version
           where r.id = %(run)s""",
        run=run,
    )
    assert found is not None
    return found


async def park(connection: Connection, run: str, fence: int, leg: int) -> str:
    return await verdict(connection, "park_run", run=run, fence=fence, leg=leg)


async def hand_off(connection: Connection, run: str, fence: int, leg: int, why: str) -> str:
    return await verdict(connection, "hand_off_run", run=run, fence=fence, leg=leg, why=why)


async def end(
    connection: Connection,
    run: str,
    fence: int | None,
    status: str,
    *,
    reason: str | None = None,
    output: object = None,
    error: object = None,
) -> str:
    """The caller holds the session's and the target's row."""
    return await verdict(
        connection,
        "end_run",
        run=run,
        fence=fence,
        status=status,
        reason=reason,
        output=None if output is None else encode(output),
        error=None if error is None else encode(error),
    )


async def lane(connection: Connection, run: str) -> Row:
    """Where its next leg is to be enqueued: {queue_key, priority, child, suspect}."""
    found = await row(
        connection,
        """select queue_key, priority, parent is not null as child, losses >= 2 as suspect
           from perdure.runs where id = %(run)s""",
        run=run,
    )
    assert found is not None
    return found


async def is_full(connection: Connection, queue_key: str, limit: int) -> bool:
    """Whether so many runs of this key are queued."""
    return await row(connection, LAST_QUEUED, queue_key=queue_key, limit=limit) is not None


async def lock(connection: Connection, run: str) -> Row | None:
    return await row(
        connection,
        """select id, session, target, status, parked, compensate, limits,
               finished_at is not null as finished
           from perdure.runs where id = %(run)s for no key update""",
        run=run,
    )


async def ask_cancel(
    connection: Connection, run: str, *, compensate: bool, by: str, reason: str | None
) -> None:
    """The run's row is locked by the caller."""
    await call(connection, "ask_cancel", run=run, compensate=compensate, by=by, reason=reason)


async def wake(connection: Connection, run: str) -> int | None:
    """The leg to enqueue in the same transaction; None if the run is not parked."""
    leg: int | None = (await call(connection, "wake_run", run=run))["wake_run"]
    return leg


async def overdue(connection: Connection, limit: int) -> list[str]:
    """Runs past their deadline that nobody is at; a child's end sees to its parent."""
    found = await rows(
        connection,
        """select id from perdure.runs r
           where deadline <= clock_timestamp() and (status = 'queued' or parked)
             and status <> 'cancelling' and finished_at is null
             and not perdure.has_live_child(id)
           order by deadline limit %(limit)s""",
        limit=limit,
    )
    return [each["id"] for each in found]


async def reopen(connection: Connection, run: str, limits: dict[str, Any], by: str) -> Row:
    """{verdict, leg}; the leg is to be enqueued in the same transaction."""
    return await call(connection, "reopen_run", run=run, limits=encode(limits), by=by)


async def fork(
    connection: Connection, source: str, turn: int, run: str, session: str, trace_id: str, by: str
) -> str:
    """'forked', or why not: see the function. Leg 1 is to be enqueued in the same transaction."""
    return await verdict(
        connection,
        "fork_run",
        source=source,
        turn=turn,
        run=run,
        session=session,
        trace_id=trace_id,
        by=by,
    )
