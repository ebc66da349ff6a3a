"""Runs that other runs have started, and wait for."""

from typing import Any

from app.domain.canonical import encode
from app.store.db import Connection, Row, call, row, rows


async def insert(connection: Connection, child: dict[str, Any]) -> None:
    """What it does not say for itself it has from its parent, whose row is locked."""
    await row(
        connection,
        """insert into perdure.runs
               (id, root, parent, delegated_by, depth, agent, agent_version, session,
                input, limits, priority, queue_key, deadline, callback, trace_id)
           select %(id)s, root, id, %(delegated_by)s, depth + 1, %(agent)s, %(agent_version)s,
               %(session)s, %(input)s, %(limits)s, priority, queue_key, deadline,
               callback, trace_id
           from perdure.runs where id = %(parent)s returning id""",
        **child,
    )


async def of_call(connection: Connection, call: str) -> Row | None:
    """The run that a call has started before: {id, output}."""
    return await row(
        connection,
        "select id, output from perdure.runs where delegated_by = %(call)s",
        call=call,
    )


async def living(connection: Connection, run: str) -> list[str]:
    """Those that have not ended, also those that a dead letter has left behind."""
    found = await rows(
        connection,
        """with recursive below as (
               select * from perdure.runs where parent = %(run)s
               union all
               select child.* from below join perdure.runs child on child.parent = below.id
               where below.status = 'dead_letter')
           select id from below where finished_at is null order by place""",
        run=run,
    )
    return [each["id"] for each in found]


async def ended(connection: Connection, run: str, result: object) -> Row:
    """{run, leg} of the parent that goes on with `result`; no leg where none is waiting."""
    return await call(
        connection, "child_ended", run=run, result=None if result is None else encode(result)
    )


async def has_living(connection: Connection, run: str) -> bool:
    """Whether a child of its own has not ended: one whose end wakes the run."""
    return bool((await call(connection, "has_live_child", run=run))["has_live_child"])
