"""What the console says at its top, and of the runs in its lists. Counts end at `MOST`."""

from collections.abc import Sequence
from datetime import datetime
from typing import LiteralString

from app.store.db import Connection, Row, row, rows
from app.store.views_inbox import ASKING, UNASKED

MOST = 10_000

# Of a value as JSON; a letter beyond ASCII is stored as six characters.
IS_LONG: LiteralString = r"""(
length({0}) > 6 * %(most)s
or length({0}) - 5 * (length({0}) - length(replace({0}, '\u', ''))) / 2 > %(most)s
)"""
LAST_CALLS: LiteralString = f"""
select id, run, turn, index, provider_id, tool, arguments_hash, replay, approval, state, attempts,
    origin, compensates, is_error, worker, history, skipped, created_at, started_at, finished_at,
    null as proposed,
    case when not long_given then coalesce(arguments, proposed) end as arguments,
    case when long_given then left(given, %(most)s) end as arguments_begin,
    case when not long_got then result end as result,
    case when long_got then left(got, %(most)s) end as result_begin
from (
    select * from perdure.calls
    where run = %(run)s and turn between %(first)s and %(last)s
    order by turn desc, index desc limit %(limit)s
) call
cross join lateral (
    select coalesce(arguments, proposed)::text as given, coalesce(result::text, '') as got offset 0
) written
cross join lateral (
    select {IS_LONG.format("given")} as long_given, {IS_LONG.format("got")} as long_got offset 0
) measured
order by turn desc, index desc
"""  # noqa: S608 - a constant

COUNTS: LiteralString = f"""
select
    (select count(*) from (
        select from perdure.runs
        where finished_at is null and status in ('running', 'cancelling') limit %(most)s
    ) running) as running,
    (select count(*) from (
        select from perdure.runs where finished_at is null and status = 'queued' limit %(most)s
    ) queued) as queued,
    (select count(*) from (
        select from perdure.waits wait where {ASKING} limit %(most)s
    ) asking) as asking,
    (select count(*) from (
        select from perdure.waits wait where {ASKING}
        union all
        select from perdure.calls call
        where state = 'outcome_unknown' and not skipped and {UNASKED}
        limit %(most)s
    ) inbox) as inbox,
    (select count(*) from (
        select from perdure.calls where state = 'outcome_unknown' and not skipped limit %(most)s
    ) unknown) as unknown,
    (select count(*) from (
        select from perdure.runs where status = 'dead_letter' limit %(most)s
    ) dead) as dead
"""  # noqa: S608 - a constant

COST_TODAY: LiteralString = """
select coalesce(sum(cost_usd), 0) as cost from perdure.runs
where created_at >= date_trunc('day', now())
"""

WAITING_SINCE: LiteralString = """
select run, min(created_at) as since from perdure.waits
where state = 'open' and run = any (%(runs)s) group by run
"""


async def counts(connection: Connection) -> Row:
    found = await row(connection, COUNTS, most=MOST)
    assert found is not None
    return found


async def cost_today(connection: Connection) -> Row:
    """Of the runs submitted since midnight (UTC): {cost}."""
    found = await row(connection, COST_TODAY)
    assert found is not None
    return found


async def waiting_since(connection: Connection, runs: Sequence[str]) -> dict[str, datetime]:
    """Since when the oldest open wait of each run is open."""
    found = await rows(connection, WAITING_SINCE, runs=list(runs))
    return {wait["run"]: wait["since"] for wait in found}


async def facts(connection: Connection, run: str) -> Row | None:
    """{seq, held}"""
    return await row(connection, "select seq, held from perdure.runs where id = %(id)s", id=run)


async def last_calls(
    connection: Connection, run: str, turns: tuple[int, int], limit: int, most: int
) -> list[Row]:
    """Of the turns from the one to the other, latest first.

    Of arguments and results longer than `most` only the beginning, as `..._begin`.
    """
    return await rows(
        connection,
        LAST_CALLS,
        run=run,
        first=turns[0],
        last=turns[1],
        limit=limit,
        most=most,
    )


async def read_only(connection: Connection, run: str) -> set[str]:
    """Its calls that change nothing."""
    found = await rows(
        connection,
        "select id from perdure.calls where run = %(run)s and replay = 'read_only'",
        run=run,
    )
    return {call["id"] for call in found}


async def last_messages(connection: Connection, run: str, limit: int) -> list[Row]:
    """Latest first."""
    return await rows(
        connection,
        """
        select * from perdure.messages where run = %(run)s order by place desc limit %(limit)s
        """,
        run=run,
        limit=limit,
    )


async def clock(connection: Connection) -> datetime:
    found = await row(connection, "select clock_timestamp() as now")
    assert found is not None
    now: datetime = found["now"]
    return now
