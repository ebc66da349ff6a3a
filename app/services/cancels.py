"""Cancelling runs, with all that was started below them."""

from dataclasses import dataclass

from app.durable.ending import followers
from app.errors import NotFound, RunEnded
from app.services.context import Caller, Services
from app.store import children, runs, sessions
from app.store.db import Connection, Row, Transaction


@dataclass(frozen=True)
class Order:
    """Who cancels, why, and whether what was done is to be undone."""

    by: str
    reason: str | None
    compensate: bool = False


async def cancel(
    services: Services, run: str, caller: Caller, reason: str | None, *, compensate: bool = False
) -> None:
    """Ends the run now if nothing can be acting for it, else as soon as what acts has stopped."""
    async with services.database.transaction() as transaction:
        await sessions.lock_below(transaction.connection, run)
        if await sessions.lock_of(transaction.connection, run) is None:
            raise NotFound(f"There is no run {run}.")
        found = await runs.lock(transaction.connection, run)
        if found is None or found["finished"]:
            raise RunEnded(f"Run {run} has ended; there is nothing left to cancel.")
        order = Order(caller.actor, reason, compensate)
        await cancel_tree(services, transaction, run, order)
    services.notifier.tell(run)


async def cancel_tree(services: Services, transaction: Transaction, run: str, order: Order) -> None:
    """The rows of its sessions (see `sessions.lock_below`), its target and its parent are locked.

    Told from the top, so that nothing new is started below; ended from the bottom.
    """
    tree = await _tell(transaction.connection, run, order)
    woken: dict[str, int] = {}
    for member in reversed(tree):
        await _end_or_wake(services, transaction, member, woken)
    for name, leg in woken.items():
        await services.legs.enqueue(transaction, name, leg)


async def cancel_children(
    services: Services, transaction: Transaction, run: str, order: Order
) -> None:
    """Of a run that is being cancelled and whose row is locked: too late for their sessions' rows.

    A run submitted there in this moment may be held behind one that has ended; the janitor looks.
    """
    for child in await children.living(transaction.connection, run):
        await cancel_tree(services, transaction, child, order)


async def _tell(connection: Connection, run: str, order: Order) -> list[Row]:
    """The run and all below it, as they were. The children are read once no more can be made."""
    found = await runs.lock(connection, run)
    if found is None or found["finished"]:
        return []
    if found["status"] != "cancelling" or (order.compensate and not found["compensate"]):
        await runs.ask_cancel(
            connection, run, compensate=order.compensate, by=order.by, reason=order.reason
        )
    tree = [found]
    for child in await children.living(connection, run):
        tree += await _tell(connection, child, order)
    return tree


async def _end_or_wake(
    services: Services, transaction: Transaction, run: Row, woken: dict[str, int]
) -> None:
    """Ends a run that no leg is at, or wakes one that has still to find out what became of it.

    `woken`: the legs to enqueue. A parent that its last child woke may yet end itself.
    """
    connection, name = transaction.connection, run["id"]
    if not run["parked"] and run["status"] != "queued":
        return
    if await runs.end(connection, name, None, "cancelled") == "ended":
        woken.pop(name, None)
        for each in await followers(connection, run):
            woken[each["run"]] = each["leg"]
        return
    if not await children.has_living(connection, name):
        leg = await runs.wake(connection, name)
        if leg is not None:
            woken[name] = leg
