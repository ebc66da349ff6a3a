"""Which runs have come to a point that a client waits for."""

from collections.abc import Collection
from typing import LiteralString

from app.store.db import Connection, rows

# A wait is open some milliseconds before its run has parked on it. Where other calls of the turn
# keep the run from parking, the question is not held back for longer than a second.
SETTLED: LiteralString = """
select run.id from perdure.runs run
where run.id = any(%(runs)s) and (
    run.finished_at is not null
    or exists (
        with recursive tree (id) as (
            select run.id
            union all
            select child.id from perdure.runs child join tree on child.parent = tree.id
        )
        select from tree
        join perdure.waits wait on wait.run = tree.id and wait.state = 'open'
        join perdure.runs asking on asking.id = wait.run
        where wait.kind in ('approval', 'outcome', 'input', 'external')
            and (asking.status = 'waiting' or wait.created_at < now() - interval '1 second')
    )
)
"""


async def settled(connection: Connection, runs: Collection[str]) -> set[str]:
    """Those of `runs` that have ended, or need a person or client: they or a descendant."""
    found = await rows(
        connection,
        SETTLED,
        runs=list(runs),
    )
    return {str(run["id"]) for run in found}
