"""Waits with the tool of the call they hold."""

from collections.abc import Mapping
from datetime import datetime
from typing import LiteralString

from app.store.db import Connection, Row, row, rows

VIEW: LiteralString = """
select wait.*, call.tool
from perdure.waits wait left join perdure.calls call on call.id = wait.call
"""

FILTERS: Mapping[str, LiteralString] = {
    "run": """wait.run in (
        with recursive tree (id) as (
            select %(run)s::text
            union all
            select child.id from perdure.runs child join tree on child.parent = tree.id
        )
        select id from tree
    )""",
    "kind": "wait.kind = %(kind)s",
    "state": "wait.state = %(state)s",
    "start_at": "(wait.created_at, wait.id) < (%(start_at)s, %(start_id)s)",
}


async def get(connection: Connection, wait: str) -> Row | None:
    return await row(connection, " ".join((VIEW, "where wait.id = %(wait)s")), wait=wait)


async def youngest(
    connection: Connection,
    filters: Mapping[str, object],
    start: tuple[datetime, str] | None,
    limit: int,
) -> list[Row]:
    """Waits that pass all of `filters` (names of FILTERS), after `start`, youngest first."""
    values = dict(filters)
    if start is not None:
        values |= {"start_at": start[0], "start_id": start[1]}
    conditions = [FILTERS[name] for name in values if name in FILTERS]
    statement = " ".join(
        (
            VIEW,
            "where",
            " and ".join(conditions or ["true"]),
            "order by wait.created_at desc, wait.id desc limit %(limit)s",
        )
    )
    return await rows(connection, statement, **values, limit=limit)
