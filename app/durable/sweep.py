"""What the database's clock does, by any worker's hand: timers are due, questions expire."""

from app.durable.enqueue import Legs
from app.store import waits
from app.store.db import Database

BATCH = 100


async def sweep(database: Database, legs: Legs) -> None:
    async with database.connection() as connection:
        due = await waits.due(connection, BATCH)
    for wait in due:
        async with database.transaction() as transaction:
            woken = await waits.expire(transaction.connection, wait)
            if woken["leg"] is not None:
                await legs.enqueue(transaction, woken["run"], woken["leg"])
