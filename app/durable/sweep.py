"""What the database's clock does, by any worker's hand.

Timers are due, questions and runs expire, and providers have room again.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence

from app.durable.ending import let_go
from app.durable.enqueue import Legs
from app.store import runs, sessions, turns, waits
from app.store.db import Connection, Database, Transaction, be_brief

log = logging.getLogger(__name__)

BATCH = 1000
LATE = {"type": "deadline", "detail": "The run's deadline has passed."}

Find = Callable[[Connection, int], Awaitable[Sequence[str]]]
Act = Callable[[Transaction, Legs, str], Awaitable[None]]


async def sweep(database: Database, legs: Legs) -> None:
    await _each(database, legs, waits.due, _expire)
    await _each(database, legs, waits.to_remind, _remind)
    await _each(database, legs, runs.overdue, _end)


async def let_in(database: Database) -> None:
    """Who waits for a provider goes on when it may be asked again or has room."""
    async with database.transaction() as transaction:
        await be_brief(transaction.connection)
        await turns.let_in(transaction.connection)


async def _each(database: Database, legs: Legs, find: Find, act: Act) -> None:
    async with database.connection() as connection:
        due = await find(connection, BATCH)
    for each in due:
        try:
            async with database.transaction() as transaction:
                await act(transaction, legs, each)
        except Exception as error:  # noqa: BLE001 - one bad item must not hold up the others
            log.warning("%s cannot be swept: %s", each, type(error).__name__)


async def _expire(transaction: Transaction, legs: Legs, wait: str) -> None:
    woken = await waits.expire(transaction.connection, wait)
    if woken["leg"] is not None:
        await legs.enqueue(transaction, woken["run"], woken["leg"])


async def _remind(transaction: Transaction, legs: Legs, wait: str) -> None:
    await waits.remind(transaction.connection, wait)


async def _end(transaction: Transaction, legs: Legs, run: str) -> None:
    connection = transaction.connection
    await be_brief(connection)
    await sessions.lock_of(connection, run)
    found = await runs.lock(connection, run)
    # It may have been taken, or have ended, since it was found.
    if found is None or not (found["status"] == "queued" or found["parked"]):
        return
    verdict = await runs.end(connection, run, None, "failed", reason="deadline", error=LATE)
    if verdict == "ended":
        await let_go(transaction, legs, found)
