"""Events on their way to callbacks: told by `perdure.announce`, handed over from here."""

from collections.abc import Mapping
from datetime import datetime
from typing import LiteralString

from app.store.db import Connection, Row, row, rows
from app.store.views_pages import View

VIEW: LiteralString = """
select delivery.*, run.callback as url
from perdure.deliveries delivery join perdure.runs run on run.id = delivery.run
"""

CONDITIONS: Mapping[str, LiteralString] = {
    "run": "delivery.run = %(run)s",
    "state": "delivery.state = %(state)s",
}

PAGES = View(VIEW, "delivery", CONDITIONS)


async def claim(
    connection: Connection, limit: int, *, seconds: float, attempts_in_order: int
) -> list[Row]:
    """What is due, for this process alone until `seconds` are over.

    A later event of a run stays where it is while an earlier one is pending, unless that has been
    tried `attempts_in_order` times. First attempts go before others, lest a receiver that is down
    keep the rest from theirs.
    """
    return await rows(
        connection,
        """with due as (
               select d.id from perdure.deliveries d
               where d.state = 'pending' and d.due_at <= now() and not exists (
                   select from perdure.deliveries earlier
                   where earlier.run = d.run and earlier.seq < d.seq
                     and earlier.state = 'pending' and earlier.attempts < %(attempts_in_order)s)
               order by d.attempts, d.due_at limit %(limit)s
               for no key update skip locked)
           update perdure.deliveries d set attempts = d.attempts + 1,
               due_at = clock_timestamp() + make_interval(secs => %(seconds)s),
               last_attempt_at = clock_timestamp(),
               first_attempt_at = coalesce(d.first_attempt_at, clock_timestamp())
           from due, perdure.runs r, perdure.events e
           where d.id = due.id and r.id = d.run and e.run = d.run and e.seq = d.seq
           returning d.id, d.run, d.type, d.attempts, d.body, d.due_at as claimed_until,
               r.callback, e.at, extract(epoch from clock_timestamp())::bigint as now""",
        limit=limit,
        seconds=seconds,
        attempts_in_order=attempts_in_order,
    )


async def keep_body(connection: Connection, delivery: str, body: str) -> str:
    """The body that was sent first, which is this one unless another process came before."""
    found = await row(
        connection,
        """update perdure.deliveries set body = coalesce(body, %(body)s)
           where id = %(id)s returning body""",
        id=delivery,
        body=body,
    )
    assert found is not None
    return str(found["body"])


async def deliver(connection: Connection, delivery: str, status: int) -> None:
    """Whoever's claim it was by then: the receiver has it."""
    await row(
        connection,
        """update perdure.deliveries set state = 'delivered', delivered_at = clock_timestamp(),
               last_status = %(status)s, last_error = null
           where id = %(id)s and state <> 'delivered' returning id""",
        id=delivery,
        status=status,
    )


async def fail(
    connection: Connection,
    delivery: str,
    claimed_until: datetime,
    *,
    status: int | None,
    error: str,
    pause: float | None,
    lifetime: float,
) -> str | None:
    """The state it is in now; None where the claim has run out and is another's."""
    found = await row(
        connection,
        """update perdure.deliveries set last_status = %(status)s, last_error = %(error)s,
               due_at = clock_timestamp() + make_interval(secs => coalesce(%(pause)s::float8, 0)),
               state = case when clock_timestamp() + make_interval(secs => %(pause)s::float8)
                   <= first_attempt_at + make_interval(secs => %(lifetime)s)
                   then 'pending' else 'dead' end
           where id = %(id)s and state = 'pending' and due_at = %(claimed_until)s
           returning state""",
        id=delivery,
        claimed_until=claimed_until,
        status=status,
        error=error,
        pause=pause,
        lifetime=lifetime,
    )
    return None if found is None else str(found["state"])


async def redeliver(connection: Connection, delivery: str) -> str | None:
    """Due at once, with all its attempts before it; None if there is no such delivery."""
    found = await row(
        connection,
        """update perdure.deliveries set state = 'pending', delivered_at = null, attempts = 0,
               first_attempt_at = null, due_at = clock_timestamp()
           where id = %(id)s returning id""",
        id=delivery,
    )
    return None if found is None else str(found["id"])


async def get(connection: Connection, delivery: str) -> Row | None:
    return await row(connection, " ".join((VIEW, "where delivery.id = %(id)s")), id=delivery)
