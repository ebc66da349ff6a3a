"""What a worker does beside its runs, on an event loop and a thread of its own.

Tool code that blocks the other loop must cost neither the lease nor anybody else's recovery.
"""

import asyncio
import errno
import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from app.durable.execution import Bench
from app.durable.isolation import Isolation
from app.durable.janitor import Janitor, carry_on, take_leg
from app.durable.lease import GivenUp, Lease
from app.durable.retention import Retention
from app.durable.sweep import let_in, sweep
from app.store import workers
from app.store.db import Database

log = logging.getLogger(__name__)

LOOK = 0.1
MEND = 1.0
SWEEP = 0.2
WATCH = 0.5
ISOLATE = 0.5
FORGET = 1.0
# A leg is DBOS's to run for this long before a worker that does not run it gives it back.
PICK_UP = 10.0
# A process without files that it could open is given up after so long.
SHORTAGE = 5.0


class Duties:
    """`isolation`: None in an isolated process, which sees to nothing but its own legs."""

    def __init__(
        self,
        bench: Bench,
        lease: Lease,
        url: str,
        on_given_up: Callable[[], None],
        isolation: Isolation | None,
        retention_seconds: float,
    ) -> None:
        self.bench = bench
        self.lease = lease
        self.url = url
        self.on_given_up = on_given_up
        self.isolation = isolation
        self.retention_seconds = retention_seconds
        self.idle: dict[str, float] = {}
        self.given_back: Counter[str] = Counter()
        self.short_since: float | None = None
        self.failed: BaseException | None = None
        self.started = False
        self.leaving = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._main, name="perdure-duties", daemon=True)

    def start(self) -> None:
        """Returns once the lease is held."""
        self._thread.start()
        while not self.lease.proof.holds():
            if self.failed is not None:
                raise self.failed
            time.sleep(0.02)
        self.started = True

    def leave(self, seconds: float) -> None:
        """Says that it was told to stop, so that what it leaves behind is nobody's fault."""
        if self.isolation is not None:
            self.isolation.leave(seconds)
        self._tell(self._say_that_it_leaves())

    def end(self) -> None:
        """Gives the lease back; one that leaves legs behind stays, to be found dead."""
        self.leaving = True
        if self.isolation is not None:
            self.isolation.end()
        self._tell(self._give_lease_back())

    def _tell(self, telling: Coroutine[Any, Any, None]) -> None:
        try:
            asyncio.run_coroutine_threadsafe(telling, self._loop).result(timeout=2.0)
        except Exception as error:  # noqa: BLE001 - the others find out by themselves
            log.warning("the others cannot be told of the end: %s", type(error).__name__)

    async def _say_that_it_leaves(self) -> None:
        if self.lease.connection is not None:
            await workers.leave(self.lease.connection, self.bench.worker)

    async def _give_lease_back(self) -> None:
        connection, worker = self.lease.connection, self.bench.worker
        # The threads of legs that were cut act as long as this process lives.
        if connection is not None and not await workers.pending_legs(connection, worker):
            await workers.give_up(connection, worker, "exited")

    def _main(self) -> None:
        try:
            self._loop.run_until_complete(self._run())
        except GivenUp:
            if not self.leaving:
                self.on_given_up()
        except BaseException as error:
            log.exception("the worker's duties have ended")
            self.failed = error
            if self.started:
                self.on_given_up()

    async def _run(self) -> None:
        async with Database(self.url, size=3, patience=2.0) as database:
            keep = asyncio.ensure_future(self.lease.keep())
            loops = [asyncio.ensure_future(self._each(*duty)) for duty in self._duties(database)]
            try:
                await keep
            finally:
                for loop in loops:
                    loop.cancel()

    def _duties(self, database: Database) -> list[tuple[float, Callable[[], Awaitable[None]]]]:
        """With the seconds between two rounds of each."""
        own = (WATCH, lambda: self._watch(database))
        if self.isolation is None:
            return [own]
        isolation = self.isolation
        janitor = Janitor(self.lease, database, self.bench.legs)
        retention = Retention(self.lease, database, self.bench.legs, self.retention_seconds)
        return [
            own,
            (LOOK, janitor.look),
            (MEND, janitor.mend),
            (SWEEP, lambda: sweep(database, self.bench.legs)),
            (SWEEP, lambda: let_in(database)),
            (ISOLATE, lambda: isolation.look(database)),
            (FORGET, retention.look),
        ]

    async def _each(self, seconds: float, duty: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(seconds)
            if not self.lease.proof.holds():
                continue
            try:
                await duty()
            except Exception as error:  # noqa: BLE001 - the next round looks again
                log.warning("a duty failed: %s: %s", type(error).__name__, error)

    async def _watch(self, database: Database) -> None:
        """Stops bodies of runs cancelled or taken; gives back legs that nobody here runs."""
        if self.bench.is_broken:
            log.critical("the event loop of the legs has ended")
            self.on_given_up()
        if self._is_short_for_good():
            log.critical("this process can open no more files, and so no connections")
            self.on_given_up()
        # Before the rows are read: a body that begins after them would seem to be nobody's.
        bodies = self.bench.bodies.in_hand()
        async with database.connection() as connection:
            owned = await workers.owned(connection, self.bench.worker)
            for body in bodies:
                fence, cancelling = owned.get(body.run, (None, False))
                if fence != body.fence or (cancelling and not body.undoes):
                    body.cancel()
            await self._give_back(
                database, await workers.pending_legs(connection, self.bench.worker)
            )

    def _is_short_for_good(self) -> bool:
        now = time.monotonic()
        self.short_since = (self.short_since or now) if is_out_of_files() else None
        return self.short_since is not None and now - self.short_since > SHORTAGE

    async def _give_back(self, database: Database, pending: dict[str, str]) -> None:
        now = time.monotonic()
        idle = set(pending) - set(self.bench.active)
        self.idle = {leg: self.idle.get(leg, now) for leg in idle}
        self.given_back = Counter({leg: self.given_back[leg] for leg in pending})
        for leg in [leg for leg, since in self.idle.items() if now - since > PICK_UP]:
            del self.idle[leg]
            self.given_back[leg] += 1
            if self.given_back[leg] > 1:
                run, _, number = leg.partition(":")
                await carry_on(database, self.bench.legs, run, int(number), "its leg does not run")
                continue
            async with database.connection() as connection:
                await take_leg(
                    database, connection, self.bench.legs, leg, self.bench.worker, pending[leg]
                )


def is_out_of_files() -> bool:
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        return error.errno == errno.EMFILE
    return False
