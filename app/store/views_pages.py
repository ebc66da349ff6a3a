"""Pages of a view, youngest first, after a place that is a key and not an offset."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import LiteralString

from app.store.db import Connection, Row, rows


@dataclass(frozen=True)
class View:
    """`select`: the statement up to its `where`; `alias`: of the table with created_at and id."""

    select: LiteralString
    alias: LiteralString
    conditions: Mapping[str, LiteralString]


async def youngest(
    connection: Connection,
    view: View,
    filters: Mapping[str, object],
    start: tuple[datetime, str] | None,
    limit: int,
) -> list[Row]:
    """What passes all of `filters` (names of conditions), after `start`."""
    key: LiteralString = f"({view.alias}.created_at, {view.alias}.id)"
    values, conditions = dict(filters), [view.conditions[name] for name in filters]
    if start is not None:
        values |= {"start_at": start[0], "start_id": start[1]}
        conditions.append(f"{key} < (%(start_at)s, %(start_id)s)")
    where = " and ".join(conditions or ["true"])
    order: LiteralString = f"{view.alias}.created_at desc, {view.alias}.id desc"
    statement = " ".join((view.select, "where", where, "order by", order, "limit %(limit)s"))
    return await rows(connection, statement, **values, limit=limit)
