"""Who wants to hear a model while it speaks: a lock per watched run, which ends with its watcher.

So a worker learns from one look at the locks that nobody listens, and then tells nothing.
"""

import zlib
from collections.abc import Collection

from app.store.db import Connection, rows

# A two-int advisory lock, shared: (WATCH, key of the run). Two runs of one key do no harm.
WATCH = 1346720855
DELTAS = "perdure_deltas"


def key_of(run: str) -> int:
    return zlib.crc32(run.encode()) & 0x7FFFFFFF


async def watch(connection: Connection, begun: Collection[int], ended: Collection[int]) -> None:
    """For as long as the session lasts."""
    for function, keys in (("lock", begun), ("unlock", ended)):
        if keys:
            await connection.execute(
                f"select pg_advisory_{function}_shared(%s, k) from unnest(%s::integer[]) k",  # noqa: S608
                (WATCH, list(keys)),
            )


async def watched(connection: Connection) -> frozenset[int]:
    """The keys of all runs that somebody watches."""
    found = await rows(
        connection,
        """select distinct objid::integer as key from pg_locks
           where locktype = 'advisory' and classid = %(space)s and objsubid = 2 and granted
             and database = (select oid from pg_database where datname = current_database())""",
        space=WATCH,
    )
    return frozenset(each["key"] for each in found)


async def tell(connection: Connection, payloads: Collection[str]) -> None:
    """A payload may have 8000 bytes."""
    await rows(
        connection,
        "select pg_notify(%(channel)s, payload) from unnest(%(payloads)s::text[]) payload",
        channel=DELTAS,
        payloads=list(payloads),
    )
