"""What ended long ago goes, little by little, by the hand of the elected worker."""

import asyncio
import logging
import time
from math import inf

from app.durable.enqueue import Legs
from app.durable.lease import Lease
from app.store import retention, workers
from app.store.db import Connection, Database, be_brief

log = logging.getLogger(__name__)

BATCH = 100
LONGEST_PAUSE = 3600.0


class Retention:
    """One batch at a time. Whatever is cut short is found again by the next round."""

    def __init__(self, lease: Lease, database: Database, legs: Legs, seconds: float) -> None:
        """`seconds`: how long what has ended is kept; 0: for ever."""
        self._lease = lease
        self._database = database
        self._legs = legs
        self._seconds = seconds
        self._after = retention.START
        self._due = -inf if seconds else inf

    async def look(self) -> None:
        """A batch, if it is time; after the last one a pause."""
        if time.monotonic() < self._due:
            return
        async with self._database.connection() as connection:
            if not await self._is_elected(connection):
                return
            found = await retention.ended(connection, self._seconds, self._after, BATCH)
            legs = {
                each["session"]: await retention.legs(connection, each["session"], self._seconds)
                for each in found
            }
        await self._forget(legs)
        self._after = found[-1] if found else retention.START
        if not found and not await self._forget_others():
            self._due = time.monotonic() + min(max(self._seconds / 24, 1.0), LONGEST_PAUSE)

    async def _is_elected(self, connection: Connection) -> bool:
        held = self._lease.connection
        if held is None or held.closed:
            return False
        return await workers.is_janitor(connection, held.info.backend_pid)

    async def _forget(self, legs: dict[str, list[str]]) -> None:
        """The journal first: what is left by a crash in between has its run, and is found by it."""
        due = {session: found for session, found in legs.items() if found}
        await asyncio.to_thread(self._legs.forget, [leg for found in due.values() for leg in found])
        gone = 0
        for session in due:
            try:
                async with self._database.transaction() as transaction:
                    await be_brief(transaction.connection)
                    gone += await retention.forget(transaction.connection, session, self._seconds)
            except Exception as error:  # noqa: BLE001 - one that is in use must not hold up the others
                log.info("session %s stays for now: %s", session, type(error).__name__)
        if gone:
            log.info("%d runs that ended long ago have been removed", gone)

    async def _forget_others(self) -> int:
        async with self._database.connection() as connection:
            return await retention.forget_others(connection, self._seconds, BATCH)
