"""Wakes whoever waits for a run: at a notice of it, and by a poll that needs no notice."""

import asyncio
import logging
from collections.abc import Collection
from contextlib import suppress
from time import monotonic

from app.store.db import Database
from app.store.db_errors import is_unavailable
from app.store.views_notices import notices, settled

POLL_SECONDS = 0.5

log = logging.getLogger(__name__)


class Hub:
    """One per process. All waiters share one LISTEN connection and one query per look."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: dict[str, set[asyncio.Event]] = {}
        self._named: set[str] = set()
        self._news = asyncio.Event()
        self._released = False

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._listen())
            group.create_task(self._look())

    async def wait(self, run: str, seconds: float) -> None:
        """Returns when the run has ended or needs a person or client, or the time is over."""
        if self._released:
            return
        waiter = asyncio.Event()
        self._waiting.setdefault(run, set()).add(waiter)
        # Looked at once more after it is registered, so that nothing falls in between.
        self._note({run})
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await waiter.wait()
        finally:
            self._forget(run, waiter)

    def release(self) -> None:
        """Ends all waiting, now and from now on: the process is about to stop."""
        self._released = True
        self._wake(list(self._waiting))

    async def _listen(self) -> None:
        async for runs in notices(self._database.url):
            self._note(runs & self._waiting.keys())

    async def _look(self) -> None:
        due = monotonic()
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(due - monotonic()):
                    await self._news.wait()
            if monotonic() >= due:
                self._named.update(self._waiting)
                due = monotonic() + POLL_SECONDS
            runs, self._named = self._named & self._waiting.keys(), set()
            self._news.clear()
            if runs:
                self._wake(await self._settled(runs))

    async def _settled(self, runs: Collection[str]) -> set[str]:
        try:
            async with self._database.connection() as connection:
                return await settled(connection, runs)
        except Exception as error:
            if not is_unavailable(error):
                log.exception("cannot look after %d waiting requests", len(runs))
            return set()

    def _note(self, runs: Collection[str]) -> None:
        if runs:
            self._named.update(runs)
            self._news.set()

    def _wake(self, runs: Collection[str]) -> None:
        for run in runs:
            for waiter in self._waiting.get(run, ()):
                waiter.set()

    def _forget(self, run: str, waiter: asyncio.Event) -> None:
        self._waiting[run].discard(waiter)
        if not self._waiting[run]:
            del self._waiting[run]
