"""What the database's clock does, by any worker's hand: timers are due, questions expire."""

import logging

from app.durable.enqueue import Legs
from app.store import waits
from app.store.db import Database

log = logging.getLogger(__name__)

BATCH = 100


async def sweep(database: Database, legs: Legs) -> None:
    async with database.connection() as connection:
        due = await waits.due(connection, BATCH)
    for wait in due:
        try:
            await _expire(database, legs, wait)
        except Exception as error:  # noqa: BLE001 - one bad wait must not hold up the others
            log.warning("%s cannot be expired: %s", wait, type(error).__name__)


async def _expire(database: Database, legs: Legs, wait: str) -> None:
    async with database.transaction() as transaction:
        woken = await waits.expire(transaction.connection, wait)
        if woken["leg"] is not None:
            await legs.enqueue(transaction, woken["run"], woken["leg"])
