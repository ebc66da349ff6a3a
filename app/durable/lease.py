"""The lease: a lock that Postgres itself ends when this worker dies, freezes or is cut off."""

import asyncio
import logging
from dataclasses import asdict, dataclass

import psycopg

from app.domain.ids import WorkerId
from app.durable.execution import Proof, now
from app.durable.liveness import Identity
from app.store import workers
from app.store.db import REACH, Connection

log = logging.getLogger(__name__)

# Nothing new begins before the lease is back.
RETRY = 0.5


class GivenUp(Exception):
    """The others have given this worker up and taken its runs."""


@dataclass
class Lease:
    """Kept by one task. The janitor's lock is on the same connection, and ends with it."""

    url: str
    worker: WorkerId
    identity: Identity
    version: str
    agents: list[str]
    seconds: float
    proof: Proof
    isolated: bool = False
    connection: Connection | None = None
    connections: int = 0
    last_beat: float = 0.0

    async def keep(self) -> None:
        """Until this worker is given up. After 0.8 leases without a beat nothing new begins."""
        lock = await self._acquire()
        while True:
            await asyncio.sleep(self.beat_seconds if self.connection else RETRY)
            try:
                await self._beat(lock)
            except (psycopg.Error, OSError) as error:
                log.warning("the lease cannot be renewed: %s", type(error).__name__)
                await self._disconnect()

    @property
    def beat_seconds(self) -> float:
        return min(2.0, self.seconds / 5)

    @property
    def is_late(self) -> bool:
        """Whether a beat is overdue; then others' may be as well, for the same reason."""
        return now() - self.last_beat > 2 * self.beat_seconds

    async def _acquire(self) -> int:
        """The lock first, then the row: a row without its lock is a dead worker's."""
        connection = await self._connect()
        lock = await workers.draw_lock(connection)
        while not await workers.try_lock(connection, workers.LEASE, lock):
            lock = await workers.draw_lock(connection)
        await workers.insert(
            connection,
            self.worker,
            lock,
            self.version,
            self.agents,
            asdict(self.identity),
            isolated=self.isolated,
        )
        self._renew(now())
        return lock

    async def _beat(self, lock: int) -> None:
        begun = now()
        async with asyncio.timeout(self.seconds / 2):
            connection = self.connection or await self._reconnect(lock)
            alive = await workers.beat(connection, self.worker)
        if not alive:
            raise GivenUp(f"{self.worker} has been given up")
        self._renew(begun)

    def _renew(self, at: float) -> None:
        self.last_beat = at
        self.proof.until = at + self.seconds * 0.8

    async def _reconnect(self, lock: int) -> Connection:
        connection = await self._connect()
        if not await workers.try_lock(connection, workers.LEASE, lock):
            await self._disconnect()
            raise psycopg.OperationalError("the earlier session still holds the lock")
        return connection

    async def _connect(self) -> Connection:
        idle = f"-c idle_session_timeout={int(self.seconds * 1000)}"
        connection = await psycopg.AsyncConnection.connect(
            self.url, autocommit=True, options=idle, **REACH
        )
        try:
            await connection.execute("set client_connection_check_interval = '1s'")
        except psycopg.Error:
            log.debug("this platform cannot check client connections")
        self.connection = connection
        self.connections += 1
        return connection

    async def _disconnect(self) -> None:
        if self.connection is not None:
            await self.connection.close()
            self.connection = None
