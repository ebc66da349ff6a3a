"""One elected worker takes over the legs of the dead, and puts stranded runs back on their way."""

import asyncio
import logging
import time
from collections.abc import Awaitable
from math import inf

from app.durable.ending import let_go
from app.durable.enqueue import Legs
from app.durable.lease import Lease
from app.durable.liveness import is_gone
from app.store import sessions, workers
from app.store.db import Connection, Database, Row

log = logging.getLogger(__name__)

GRACE = 10.0
PATIENCE = 5.0
# An answer that took longer than this is no news.
STALE = 1.0
DEADLY = "workers died while they carried it out"


class Janitor:
    """Looks at the truth each time, never at news of it: what one look misses, the next finds."""

    def __init__(self, lease: Lease, database: Database, legs: Legs) -> None:
        self.lease = lease
        self.database = database
        self.legs = legs
        self.elected_on: Connection | None = None
        self.reconnected = -inf
        self.grace = max(GRACE, lease.seconds)
        self.connections = 1
        self.suspected: set[str] = set()
        self.breaches: dict[tuple[str, int], float] = {}

    async def look(self) -> None:
        """One round. An error ends it; the next one begins afresh."""
        suspected, self.suspected = self.suspected, set()
        if not await self._is_elected():
            return
        # Not over the lease's connection: waiting for a row's lock there would hold up the beat.
        async with self.database.connection() as connection:
            began = time.monotonic()
            if not await self._still_elected(connection):
                # Its own lease is gone, unnoticed so far: others' may be too, for no fault.
                return
            silent = await workers.without_lease(connection)
            if time.monotonic() - began > STALE or self.lease.is_late:
                # A database that was stalled has lost leases of the living, and tells of the past.
                self.reconnected = time.monotonic()
            for worker in silent:
                await self._judge(connection, worker, seen_before=worker["id"] in suspected)
            if self.suspected:
                return  # what they hold locked would be waited for; the next look tells
            for leg in await workers.legs_of_the_dead(connection):
                await self._take(connection, leg)

    async def _take(self, connection: Connection, leg: Row) -> None:
        # DBOS resumes whatever it is told to: a janitor that has been replaced must not tell it.
        if not await self._still_elected(connection):
            return
        try:
            await take_leg(self.database, connection, self.legs, **leg)
        except Exception as error:  # noqa: BLE001 - one bad leg must not hold up the others
            log.warning("%s cannot be taken over: %s", leg["workflow"], type(error).__name__)

    async def _still_elected(self, connection: Connection) -> bool:
        elected_on = self.elected_on
        if elected_on is None or elected_on.closed:
            return False
        return await workers.is_janitor(connection, elected_on.info.backend_pid)

    async def mend(self) -> None:
        """Invariants, not events: whatever stranded a run, it is found by what it lacks."""
        async with self.database.connection() as connection:
            if not await self._still_elected(connection):
                return
            stranded = await workers.stranded(connection)
            forgotten = await workers.forgotten(connection)
        found = {(each["run"], each["leg"]): each["why"] for each in stranded}
        now = time.monotonic()
        self.breaches = {leg: self.breaches.get(leg, now) for leg in found}
        for (run, leg), since in self.breaches.items():
            if now - since > PATIENCE:
                await self._try(run, carry_on(self.database, self.legs, run, leg, found[run, leg]))
        for held in forgotten:
            await self._try(held["run"], self._release(held))

    async def _try(self, run: str, mending: Awaitable[None]) -> None:
        try:
            await mending
        except Exception as error:  # noqa: BLE001 - one bad run must not hold up the others
            log.warning("%s cannot be mended: %s", run, type(error).__name__)

    async def _is_elected(self) -> bool:
        connection = self.lease.connection
        if connection is None:
            return False
        if self.lease.connections != self.connections:
            self.connections = self.lease.connections
            self.reconnected = time.monotonic()
        if self.elected_on is not connection:
            if not await workers.try_lock(connection, workers.JANITOR, 0):
                return False
            self.elected_on = connection
            log.info("elected janitor")
        return True

    async def _judge(self, connection: Connection, worker: Row, *, seen_before: bool) -> None:
        """After an outage every lease looks lost for a while; then only a proved death counts.

        So it does in one look alone: where connections are being cut, this one's may be next.
        """
        if worker["id"] == self.lease.worker:
            return
        if is_gone(worker, self.lease.identity):
            death = "proved"
        elif worker["age"] < self.grace or time.monotonic() - self.reconnected < self.grace:
            return
        elif not seen_before:
            self.suspected.add(worker["id"])
            return
        else:
            death = "lease_lost"
        log.warning("worker %s is dead (%s)", worker["id"], death)
        await workers.give_up(connection, worker["id"], death)
        await workers.hang_up(connection, worker["id"])

    async def _release(self, run: Row) -> None:
        async with self.database.transaction() as transaction:
            await sessions.lock(transaction.connection, run["session"], run["target"])
            for freed in await sessions.release_held(
                transaction.connection, run["session"], run["target"]
            ):
                await self.legs.enqueue(transaction, freed["run"], freed["leg"])


async def take_leg(
    database: Database, connection: Connection, legs: Legs, workflow: str, worker: str, queue: str
) -> None:
    """Takes one leg from a worker that no longer runs it."""
    run, _, leg = workflow.partition(":")
    match await workers.take_over(connection, run, int(leg), worker):
        case "resume":
            log.warning("leg %s is taken over from %s", workflow, worker)
            await asyncio.to_thread(legs.resume, workflow, queue)
        case "isolate":
            # The old leg is dropped in the next round, as one that its run has left behind.
            await carry_on(database, legs, run, int(leg), DEADLY, is_breach=False)
        case "drop":
            await asyncio.to_thread(legs.drop, workflow)


async def carry_on(
    database: Database, legs: Legs, run: str, leg: int, why: str, *, is_breach: bool = True
) -> None:
    """Goes on with the next leg, from our tables, where DBOS does not carry this one any more."""
    log.warning("%s goes on with its next leg: %s", run, why)
    async with database.transaction() as transaction:
        work = await sessions.lock_of(transaction.connection, run)
        assert work is not None
        following = await workers.carry_on(
            transaction.connection, run, leg, why, is_breach=is_breach
        )
        if following is None:
            await let_go(transaction, legs, work)
        else:
            await legs.enqueue(transaction, run, following)
