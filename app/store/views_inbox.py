"""What a person can settle: open questions, and calls whose outcome nobody knows."""

from collections.abc import Sequence
from datetime import datetime
from typing import LiteralString

from app.store.db import Connection, Row, row, rows
from app.store.views_waits import MADE_RULE

# With what a person must know to answer; the tool, as the run's version of its agent declares it.
TOLD: LiteralString = """
    run.agent, run.session, run.input, run.target, run.status as run_status,
    call.tool, call.turn, call.index, call.replay, call.attempts, call.history, call.origin, (
        select declared.value
        from perdure.agent_versions version,
            json_array_elements(version.definition -> 'tools') declared
        where version.agent = run.agent and version.version = run.agent_version
            and declared.value ->> 'name' = call.tool
    ) as declared
"""

CASE: LiteralString = f"""
select wait.*, {MADE_RULE} as made_rule, {TOLD}
from perdure.waits wait
join perdure.runs run on run.id = wait.run
left join perdure.calls call on call.id = wait.call
"""  # noqa: S608 - a constant

ASKING: LiteralString = """
wait.state = 'open' and wait.kind in ('approval', 'outcome', 'input', 'external')
"""
OLDEST: LiteralString = "order by wait.created_at, wait.id limit %(limit)s"
BEHIND: LiteralString = "and (wait.created_at, wait.id) > (%(at)s, %(id)s)"

UNKNOWN: LiteralString = f"""
select call.id, call.run, call.arguments, call.started_at, {TOLD}
from perdure.calls call join perdure.runs run on run.id = call.run
where call.state = 'outcome_unknown' and not call.skipped
    and not exists (
        select from perdure.waits wait where wait.call = call.id and wait.state = 'open'
    )
order by call.started_at, call.id limit %(limit)s
"""  # noqa: S608 - a constant

FIRST: LiteralString = " ".join((CASE, "where", ASKING, OLDEST))
NEXT: LiteralString = " ".join((CASE, "where", ASKING, BEHIND, OLDEST))
OF_RUNS: LiteralString = " ".join((CASE, "where wait.run = any (%(runs)s)", OLDEST))


async def asking(
    connection: Connection, start: tuple[datetime, str] | None, limit: int
) -> list[Row]:
    """Open waits that a person can settle, oldest first."""
    if start is None:
        return await rows(connection, FIRST, limit=limit)
    return await rows(connection, NEXT, at=start[0], id=start[1], limit=limit)


async def waits_of(connection: Connection, runs: Sequence[str], limit: int) -> list[Row]:
    """All waits of the runs, oldest first."""
    return await rows(connection, OF_RUNS, runs=list(runs), limit=limit)


async def case(connection: Connection, wait: str) -> Row | None:
    return await row(connection, " ".join((CASE, "where wait.id = %(wait)s")), wait=wait)


async def unknown(connection: Connection, limit: int) -> list[Row]:
    """Calls that nobody knows the outcome of and no open wait asks about, oldest first."""
    return await rows(connection, UNKNOWN, limit=limit)
