"""What ended long ago: found, and removed."""

from datetime import UTC, datetime
from typing import LiteralString

from app.store.db import Connection, Row, call, rows

# A key is good for so long, even if its run goes sooner.
KEY_SECONDS = 30 * 86400.0

# Of each session its last run, unless it was started by another; those that were go with that one.
ENDED: LiteralString = """
select r.id, r.session, r.finished_at from perdure.runs r
where r.finished_at < now() - make_interval(secs => %(seconds)s)
  and (r.finished_at, r.id) > (%(finished_at)s, %(id)s)
  and r.parent is null and not exists (
      select from perdure.runs later where later.session = r.session and later.place > r.place)
order by r.finished_at, r.id limit %(limit)s
"""
START: Row = {"id": "", "finished_at": datetime.min.replace(tzinfo=UTC)}

DELIVERIES: LiteralString = """
delete from perdure.deliveries where id in (
    select id from perdure.deliveries
    where state = any('{delivered,dead}')
      and created_at < now() - make_interval(secs => %(seconds)s)
    limit %(limit)s)
returning id
"""
KEYS: LiteralString = """
delete from perdure.idempotency where (caller, key) in (
    select caller, key from perdure.idempotency
    where run is null and created_at < now() - make_interval(secs => %(seconds)s)
    limit %(limit)s)
returning key
"""
# One that has begun a call of a live run may be asked for, as a proof that it acts no more.
WORKERS: LiteralString = """
delete from perdure.workers where id in (
    select w.id from perdure.workers w
    where w.dead_at < now() - make_interval(secs => %(seconds)s)
      and not exists (select from perdure.runs r where r.owner = w.id)
      and w.id not in (select c.worker from perdure.runs r join perdure.calls c on c.run = r.id
          where r.finished_at is null and c.worker is not null)
      and not exists (select from dbos.workflow_status s
          where s.executor_id = w.id and s.status in ('ENQUEUED', 'DELAYED', 'PENDING'))
    limit %(limit)s)
returning id
"""


async def ended(connection: Connection, seconds: float, after: Row, limit: int) -> list[Row]:
    """{id, session, finished_at} of units that may be due, in the order of their ends."""
    return await rows(
        connection,
        ENDED,
        seconds=seconds,
        finished_at=after["finished_at"],
        id=after["id"],
        limit=limit,
    )


async def legs(connection: Connection, session: str, seconds: float) -> list[str]:
    """All that the unit of a session has had; none if it has to stay."""
    found = await rows(
        connection,
        "select perdure.legs_to_forget(%(session)s, %(seconds)s) as leg",
        session=session,
        seconds=seconds,
    )
    return [each["leg"] for each in found]


async def forget(connection: Connection, session: str, seconds: float) -> int:
    """How many runs went."""
    return int((await call(connection, "forget", session=session, seconds=seconds))["forget"])


async def forget_others(connection: Connection, seconds: float, limit: int) -> int:
    """What no run refers to any more, and deliveries of runs that stay; how many went."""
    deliveries = await rows(connection, DELIVERIES, seconds=seconds, limit=limit)
    keys = await rows(connection, KEYS, seconds=KEY_SECONDS, limit=limit)
    dead = await rows(connection, WORKERS, seconds=seconds, limit=limit)
    return len(deliveries) + len(keys) + len(dead)
