"""The event log of runs, followed by any number of clients, each at its own pace.

A stream has a place in the log and nothing queued: it is given the next events when it asks for
them, so that a slow client costs no more memory than one page.
"""

import asyncio
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

from app.store.db import Connection, Row
from app.store.views_events import Further, Place, further

Write = Callable[[Row], bytes]


class Page:
    """What comes next after one place of a run: the same for all streams that stand there."""

    def __init__(self, found: Further) -> None:
        self._found = found
        self._written: list[bytes] | None = None

    @property
    def is_last(self) -> bool:
        return self._found.is_last

    @property
    def is_whole(self) -> bool:
        return self._found.is_whole

    @property
    def is_empty(self) -> bool:
        return not self._found.events

    @property
    def last(self) -> int:
        return int(self._found.events[-1]["seq"])

    def written(self, write: Write) -> list[bytes]:
        """Each event is written once, for however many clients."""
        if self._written is None:
            self._written = [write(event) for event in self._found.events]
        return self._written


class Stream:
    """One client's. `after`: the last event that it was given."""

    def __init__(self, run: str, after: int, ask: Callable[[], None]) -> None:
        self.run = run
        self.after = after
        self.is_hungry = False
        # Something may have been told since it was last looked at.
        self.is_stale = True
        self.is_released = False
        self._ask = ask
        self._page: Page | None = None
        self._news = asyncio.Event()

    @property
    def place(self) -> Place:
        return self.run, self.after

    async def next(self) -> Page | None:
        """What comes next, as soon as there is something; None when the process is to stop.

        May be cancelled and asked again; nothing is lost by it.
        """
        while self._page is None:
            if self.is_released:
                return None
            self.is_hungry = True
            if self.is_stale:
                self._ask()
            self._news.clear()
            await self._news.wait()
        page, self._page = self._page, None
        return page

    def give(self, page: Page) -> None:
        self.is_hungry, self.is_stale = False, not page.is_whole
        if not page.is_empty:
            self.after = page.last
        self._page = page
        self._news.set()

    def release(self) -> None:
        self.is_released = True
        self._news.set()


class Streams:
    """All streams of this process."""

    def __init__(self, name: Callable[[Collection[str]], None]) -> None:
        self._name = name
        self._open: dict[str, set[Stream]] = {}
        self._is_released = False

    @contextmanager
    def follow(self, run: str, after: int) -> Iterator[Stream]:
        stream = Stream(run, after, lambda: self._name({run}))
        stream.is_released = self._is_released
        self._open.setdefault(run, set()).add(stream)
        try:
            yield stream
        finally:
            self._open[run].discard(stream)
            if not self._open[run]:
                del self._open[run]

    def runs(self) -> Collection[str]:
        return self._open.keys()

    async def look(self, connection: Connection, runs: Collection[str]) -> None:
        hungry: dict[Place, list[Stream]] = {}
        for stream in [each for run in runs for each in self._open.get(run, ())]:
            stream.is_stale = not stream.is_hungry
            if stream.is_hungry:
                hungry.setdefault(stream.place, []).append(stream)
        if not hungry:
            return
        for place, found in (await further(connection, hungry.keys())).items():
            page = Page(found)
            if page.is_last or not page.is_empty:
                for stream in hungry[place]:
                    stream.give(page)

    def release(self) -> None:
        self._is_released = True
        for streams in self._open.values():
            for stream in streams:
                stream.release()
