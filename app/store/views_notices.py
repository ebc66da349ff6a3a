"""Which runs have news, and which of them have come to a point that a client waits for."""

import asyncio
from collections.abc import AsyncIterator, Collection
from typing import LiteralString

import psycopg
from psycopg import sql

from app.store.db import REACH, Connection, rows
from app.store.notify import CHANNEL

RETRY_SECONDS = 0.5

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


async def notices(url: str) -> AsyncIterator[frozenset[str]]:
    """The ids of changed runs, as they are told of; for ever, over any number of lost connections.

    A notice that is sent while the connection is down is lost.
    """
    while True:
        try:
            async with await _listen(url) as connection:
                async for notice in connection.notifies():
                    yield frozenset(notice.payload.split(","))
        except (psycopg.Error, OSError):
            await asyncio.sleep(RETRY_SECONDS)


async def _listen(url: str) -> Connection:
    # Keepalives: a listener only reads, and would never find out that the other side is gone.
    connection = await psycopg.AsyncConnection.connect(url, autocommit=True, **REACH)
    await connection.execute(sql.SQL("listen {}").format(sql.Identifier(CHANNEL)))
    return connection


async def settled(connection: Connection, runs: Collection[str]) -> set[str]:
    """Those of `runs` that have ended, or need a person or client: they or a descendant."""
    found = await rows(
        connection,
        SETTLED,
        runs=list(runs),
    )
    return {str(run["id"]) for run in found}
