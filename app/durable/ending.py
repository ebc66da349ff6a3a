"""What the end of a run sets going: runs that were held behind it, and the parent that waits."""

from app.durable.enqueue import Legs
from app.store import children, sessions
from app.store.db import Connection, Row, Transaction


async def followers(connection: Connection, run: Row, result: object = None) -> list[Row]:
    """{run, leg} of those to enqueue in the same transaction, after `runs.end`.

    `run`: its id, session and target, all locked, as its parent is; `result`: of a success.
    """
    going = await sessions.release_held(connection, run["session"], run["target"])
    parent = await children.ended(connection, run["id"], result)
    return going if parent["leg"] is None else [*going, parent]


async def let_go(
    transaction: Transaction, legs: Legs, run: Row, result: object = None
) -> list[str]:
    """Enqueues the followers of a run that has ended; their ids."""
    going = await followers(transaction.connection, run, result)
    for each in going:
        await legs.enqueue(transaction, each["run"], each["leg"])
    return [each["run"] for each in going]
