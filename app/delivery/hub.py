"""Wakes whoever waits for a run: at a notice of it, and by a poll that needs no notice."""

import asyncio
import logging
from collections.abc import Callable, Collection
from contextlib import suppress
from time import monotonic
from typing import Protocol

from app.delivery.drafts import Delta
from app.delivery.streams import Streams
from app.store.db import Connection, Database
from app.store.db_errors import is_unavailable
from app.store.listening import Listener
from app.store.views_notices import settled

POLL_SECONDS = 0.5

log = logging.getLogger(__name__)


class Audience(Protocol):
    """Those who wait for one kind of news."""

    def runs(self) -> Collection[str]: ...

    async def look(self, connection: Connection, runs: Collection[str]) -> None:
        """One query for all of them; wakes those for whom there is something."""
        ...

    def release(self) -> None: ...


class Hub:
    """One per process. All who wait share one LISTEN connection, one poll, one query per look."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._held = Held(self._name)
        self._listener = Listener(database.url, self._hear, self._hear_delta)
        self.streams = Streams(self._name, self._listener.watch)
        self._audiences: tuple[Audience, ...] = (self._held, self.streams)
        self._named: set[str] = set()
        self._news = asyncio.Event()

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._listener.run())
            group.create_task(self._keep_looking())

    async def wait(self, run: str, seconds: float) -> None:
        """Returns when the run has ended or needs a person or client, or the time is over."""
        await self._held.wait(run, seconds)

    def release(self) -> None:
        """Ends all waiting, now and from now on: the process is about to stop."""
        for audience in self._audiences:
            audience.release()

    def _hear(self, runs: str) -> None:
        awaited = [audience.runs() for audience in self._audiences]
        self._name({run for run in runs.split(",") if any(run in each for each in awaited)})

    def _hear_delta(self, payload: str) -> None:
        if delta := Delta.read(payload):
            self.streams.hear(delta)

    async def _keep_looking(self) -> None:
        due = monotonic()
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(due - monotonic()):
                    await self._news.wait()
            if monotonic() >= due:
                self._named |= self._awaited()
                due = monotonic() + POLL_SECONDS
            named, self._named = self._named, set()
            self._news.clear()
            for audience in self._audiences:
                if runs := named.intersection(audience.runs()):
                    await self._look(audience, runs)

    async def _look(self, audience: Audience, runs: Collection[str]) -> None:
        try:
            async with self._database.connection() as connection:
                await audience.look(connection, runs)
        except Exception as error:
            # The next poll names them all again.
            if not is_unavailable(error):
                log.exception("cannot look after %d runs", len(runs))

    def _awaited(self) -> set[str]:
        return {run for audience in self._audiences for run in audience.runs()}

    def _name(self, runs: Collection[str]) -> None:
        if runs:
            self._named.update(runs)
            self._news.set()


class Held:
    """Requests that are held until their run has ended or needs somebody."""

    def __init__(self, name: Callable[[Collection[str]], None]) -> None:
        self._name = name
        self._waiting: dict[str, set[asyncio.Event]] = {}
        self._released = False

    async def wait(self, run: str, seconds: float) -> None:
        if self._released:
            return
        waiter = asyncio.Event()
        self._waiting.setdefault(run, set()).add(waiter)
        # Looked at once more after it is registered, so that nothing falls in between.
        self._name({run})
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await waiter.wait()
        finally:
            self._forget(run, waiter)

    def runs(self) -> Collection[str]:
        return self._waiting.keys()

    async def look(self, connection: Connection, runs: Collection[str]) -> None:
        self._wake(await settled(connection, runs))

    def release(self) -> None:
        self._released = True
        self._wake(list(self._waiting))

    def _wake(self, runs: Collection[str]) -> None:
        for run in runs:
            for waiter in self._waiting.get(run, ()):
                waiter.set()

    def _forget(self, run: str, waiter: asyncio.Event) -> None:
        self._waiting[run].discard(waiter)
        if not self._waiting[run]:
            del self._waiting[run]
