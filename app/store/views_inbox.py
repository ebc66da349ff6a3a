"""What a person can settle: open questions, and calls whose outcome nobody knows."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import LiteralString

from app.store import views_calls
from app.store.db import Connection, Row, row, rows
from app.store.views_pages import View, youngest
from app.store.views_waits import MADE_RULE

# With what a person must know to answer; the tool, as the run's version of its agent declares it.
TOLD: LiteralString = """
    run.agent, run.target, run.status as run_status,
    call.tool, call.turn, call.index, call.replay, call.history, call.origin, (
        select declared.value
        from perdure.agent_versions version,
            json_array_elements(version.definition -> 'tools') declared
        where version.agent = run.agent and version.version = run.agent_version
            and declared.value ->> 'name' = call.tool
    ) as declared
"""

OF_WAITS: LiteralString = """
from perdure.waits wait
join perdure.runs run on run.id = wait.run
left join perdure.calls call on call.id = wait.call
"""
CASE: LiteralString = f"""
select wait.*, {MADE_RULE} as made_rule, {TOLD} {OF_WAITS}
"""
# For where its call stands as well, with the arguments and the result, which may be long.
BESIDE_CALL: LiteralString = f"""
select wait.id, wait.run, wait.kind, wait.state, wait.call, wait.question, wait.arguments_hash,
    null as arguments, null as evidence, wait.deadline, case when wait.resolution is not null then
        json_build_object(
            'decision', wait.resolution -> 'decision', 'outcome', wait.resolution -> 'outcome',
            'reason', wait.resolution -> 'reason', 'text', wait.resolution -> 'text',
            'rule', wait.resolution -> 'rule')
    end as resolution, wait.resolved_by, wait.on_behalf_of, wait.resolved_via, wait.resolved_at,
    wait.created_at, {MADE_RULE} as made_rule, {TOLD} {OF_WAITS}
"""

ASKING: LiteralString = """
wait.state = 'open' and wait.kind in ('approval', 'outcome', 'input', 'external')
"""
OLDEST: LiteralString = "order by wait.created_at, wait.id limit %(limit)s"
BEHIND: LiteralString = "and (wait.created_at, wait.id) > (%(at)s, %(id)s)"

UNKNOWN: LiteralString = f"""
select call.id, call.run, call.arguments, call.started_at, call.created_at, {TOLD}
from ({views_calls.UNKNOWN}) call join perdure.runs run on run.id = call.run
"""  # noqa: S608 - a constant
UNASKED: LiteralString = """
not exists (select from perdure.waits wait where wait.call = call.id and wait.state = 'open')
"""
UNKNOWN_PAGES = View(UNKNOWN, "call", {"unasked": UNASKED, "call": "call.id = %(call)s"})

FIRST: LiteralString = " ".join((CASE, "where", ASKING, OLDEST))
NEXT: LiteralString = " ".join((CASE, "where", ASKING, BEHIND, OLDEST))
OF_RUNS: LiteralString = " ".join((CASE, "where wait.run = any (%(runs)s) and", ASKING, OLDEST))
YOUNGEST: LiteralString = "order by wait.created_at desc, wait.id desc limit %(limit)s"
LAST: LiteralString = " ".join((BESIDE_CALL, "where wait.run = %(run)s", YOUNGEST))


async def asking(
    connection: Connection, start: tuple[datetime, str] | None, limit: int
) -> list[Row]:
    """Open waits that a person can settle, oldest first."""
    if start is None:
        return await rows(connection, FIRST, limit=limit)
    return await rows(connection, NEXT, at=start[0], id=start[1], limit=limit)


async def asking_of(connection: Connection, runs: Sequence[str], limit: int) -> list[Row]:
    """The same of these runs."""
    return await rows(connection, OF_RUNS, runs=list(runs), limit=limit)


async def last_of(connection: Connection, run: str, limit: int) -> list[Row]:
    """The run's waits in all states, youngest first, without what their calls have as well."""
    return await rows(connection, LAST, run=run, limit=limit)


async def case(connection: Connection, wait: str) -> Row | None:
    return await row(connection, " ".join((CASE, "where wait.id = %(wait)s")), wait=wait)


async def unknown(
    connection: Connection,
    filters: Mapping[str, object],
    start: tuple[datetime, str] | None,
    limit: int,
) -> list[Row]:
    """Calls that nobody knows the outcome of and no open wait asks about, youngest first."""
    return await youngest(connection, UNKNOWN_PAGES, {"unasked": True, **filters}, start, limit)
