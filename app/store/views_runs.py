"""Runs as clients see them; one statement, so that status, waits and effects are of one moment."""

from collections.abc import Mapping
from datetime import datetime
from typing import LiteralString

from app.store.db import Connection, Row, row
from app.store.views_pages import View

# Any attempt of a call's history that may have done something.
ACTED: LiteralString = '$[*] ? (@.outcome != "did_not_happen" && @.outcome != "not_called")'

VIEW: LiteralString = f"""
select run.*,
    array(
        select child.id from perdure.runs child where child.parent = run.id order by child.place
    ) as children,
    used.turns as used_turns,
    used.tokens as used_tokens,
    used.cost_usd as used_cost_usd,
    used.seconds as used_seconds,
    case when run.limits ->> 'calls' is not null then perdure.calls_made(run.id) end as used_calls,
    (
        select json_agg(json_build_object(
            'call', call.id, 'tool', call.tool, 'state', call.state, 'replay', call.replay,
            'acted', call.history = '[]' or call.history @? '{ACTED}',
            'undo', (
                select json_build_object('state', undo.state, 'replay', undo.replay,
                    'acted', undo.history = '[]' or undo.history @? '{ACTED}')
                from perdure.calls undo
                where undo.compensates = call.id and undo.started_at is not null
            )
        ) order by call.turn, call.index)
        from perdure.calls call
        where call.run = run.id and call.started_at is not null
            and call.compensates is null and call.origin is null
            and not exists (select from perdure.runs child where child.delegated_by = call.id)
    ) as started_calls,
    (
        with recursive tree (id) as (
            select run.id
            union all
            select child.id from perdure.runs child join tree on child.parent = tree.id
        )
        select json_agg(json_build_object(
            'id', wait.id, 'run', wait.run, 'kind', wait.kind, 'call', wait.call, 'tool', call.tool,
            'turn', call.turn, 'index', call.index, 'question', wait.question,
            'arguments', wait.arguments, 'arguments_hash', wait.arguments_hash,
            'evidence', wait.evidence, 'deadline', wait.deadline
        ) order by wait.created_at, wait.id)
        from tree
        join perdure.waits wait on wait.run = tree.id and wait.state = 'open'
        left join perdure.calls call on call.id = wait.call
    ) as open_waits
from perdure.runs run cross join lateral perdure.used(run.id) used
"""  # noqa: S608 - text of our own

CONDITIONS: Mapping[str, LiteralString] = {
    "status": "run.status = %(status)s",
    "agent": "run.agent = %(agent)s",
    "session": "run.session = %(session)s",
    "target": "run.target = %(target)s",
    "queue_key": "run.queue_key = %(queue_key)s",
    "created_after": "run.created_at > %(created_after)s",
    "created_before": "run.created_at < %(created_before)s",
}

PAGES = View(VIEW, "run", CONDITIONS)


async def get(connection: Connection, run: str) -> Row | None:
    return await row(connection, " ".join((VIEW, "where run.id = %(run)s")), run=run)


async def seq(connection: Connection, run: str) -> int | None:
    """The number of the run's last event; None if there is no such run."""
    found = await row(connection, "select seq from perdure.runs where id = %(run)s", run=run)
    return None if found is None else int(found["seq"])


async def has_passed(
    connection: Connection, deadline: datetime, caller: str, key: str | None
) -> bool:
    """By the database's clock; a key that was spent before the deadline is still answered."""
    found = await row(
        connection,
        """
        select %(deadline)s <= now() and not exists (
            select from perdure.idempotency where caller = %(caller)s and key = %(key)s::text
        ) as passed
        """,
        deadline=deadline,
        caller=caller,
        key=key,
    )
    return found is not None and bool(found["passed"])
