"""The event log of runs, followed by any number of clients, each at its own pace.

A stream has a place in the log and nothing queued: it is given the next events when it asks for
them, so that a slow client costs no more memory than one page. What a model is saying is kept once
for all who watch, and each is told what it has not heard.
"""

import asyncio
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

from app.delivery.drafts import ALL_ATTEMPTS, Call, Delta, joined
from app.store.db import Connection, Row
from app.store.views_events import Further, Place, further

Write = Callable[[Row], bytes]
Names = Callable[[Collection[str]], None]

NO_CALL = (0, 0)
# When the process is to stop, a client has so long to take what it was last sent.
LEAVING_SECONDS = 0.5


class Page:
    """What comes next after one place of a run: the same for all streams that stand there."""

    def __init__(self, found: Further) -> None:
        self.events = found.events
        self.is_last = found.is_last
        self.is_whole = found.is_whole
        self.superseded = max(map(_superseded, self.events), default=NO_CALL)
        self._written: list[bytes] | None = None

    def written(self, write: Write) -> list[bytes]:
        """Each event is written once, for however many clients."""
        if self._written is None:
            self._written = [write(event) for event in self.events]
        return self._written


def _superseded(event: Row) -> Call:
    """The model call that is over with this event: of it, and of earlier ones, no more is told."""
    match event["type"]:
        case "model.completed":
            return event["data"]["turn"], ALL_ATTEMPTS
        case "model.retrying" | "model.failed":
            return event["data"]["turn"], event["data"]["attempt"]
        case _:
            return NO_CALL


class Stream:
    """One client's. `after`: the last event that it was given.

    `superseded`: the last model call that is over; None for who does not want to hear them.
    `cut`: breaks the connection off.
    """

    def __init__(
        self, run: str, after: int, superseded: Call | None, cut: Callable[[], None]
    ) -> None:
        self.run = run
        self.after = after
        self.superseded = superseded
        self.cut = cut
        self.is_hungry = False
        # Something may have been told since it was last looked at.
        self.is_stale = True
        self.is_released = False
        self.draft: Delta | None = None
        self.news = asyncio.Event()
        self._heard = (*NO_CALL, 0)
        self._page: Page | None = None

    @property
    def place(self) -> Place:
        return self.run, self.after

    async def next(self, ask: Callable[[], None]) -> Page | Delta | None:
        """What comes next, as soon as there is something; None when the process is to stop.

        May be cancelled and asked again; nothing is lost by it.
        """
        while self._page is None:
            if self.is_released:
                return None
            # What the model is saying comes after all that is in the log.
            if not self.is_stale and (delta := self._unheard()):
                return delta
            self.is_hungry = True
            if self.is_stale:
                ask()
            self.news.clear()
            await self.news.wait()
        page, self._page = self._page, None
        return page

    def give(self, page: Page) -> None:
        self.is_hungry, self.is_stale = False, not page.is_whole
        if page.events:
            self.after = int(page.events[-1]["seq"])
        if self.superseded is not None:
            self.superseded = max(self.superseded, page.superseded)
        self._page = page
        self.news.set()

    def _unheard(self) -> Delta | None:
        draft, self.draft = self.draft, None
        if draft is None or self.superseded is None or draft.call <= self.superseded:
            return None
        delta = draft.after(self._heard[2]) if draft.call == self._heard[:2] else draft
        self._heard = (*draft.call, draft.end)
        return delta if delta.text else None


class Streams:
    """All streams of this process. `watch`: whose models are to be heard."""

    def __init__(self, name: Names, watch: Names) -> None:
        self._name = name
        self._watch = watch
        self._open: dict[str, set[Stream]] = {}
        self._drafts: dict[str, Delta | None] = {}
        self._is_released = False

    @contextmanager
    def follow(
        self, run: str, after: int, superseded: Call | None, cut: Callable[[], None]
    ) -> Iterator[Stream]:
        stream = Stream(run, after, superseded, cut)
        stream.is_released = self._is_released
        self._open.setdefault(run, set()).add(stream)
        self._watch_over(run)
        stream.draft = self._drafts.get(run)
        try:
            yield stream
        finally:
            self._open[run].discard(stream)
            if not self._open[run]:
                del self._open[run]
            self._watch_over(run)

    async def next(self, stream: Stream) -> Page | Delta | None:
        return await stream.next(lambda: self._name({stream.run}))

    def runs(self) -> Collection[str]:
        return self._open.keys()

    def of(self, run: str) -> Collection[Stream]:
        return self._open.get(run, ())

    async def look(self, connection: Connection, runs: Collection[str]) -> None:
        hungry: dict[Place, list[Stream]] = {}
        for stream in [each for run in runs for each in self.of(run)]:
            stream.is_stale = not stream.is_hungry
            if stream.is_hungry:
                hungry.setdefault(stream.place, []).append(stream)
        if not hungry:
            return
        found = await further(connection, hungry.keys())
        for place, streams in hungry.items():
            if place in found:
                page = Page(found[place])
                for stream in streams:
                    stream.give(page)
                self._forget_draft(place[0], page)
            else:
                for stream in streams:
                    stream.news.set()  # it may have heard something while it was behind

    def hear(self, delta: Delta) -> None:
        """Of runs that nobody here watches nothing is kept."""
        if delta.run not in self._drafts:
            return
        draft = self._drafts[delta.run] = joined(self._drafts[delta.run], delta)
        for stream in self._open[delta.run]:
            if stream.superseded is not None:
                stream.draft = draft
                stream.news.set()

    def release(self) -> None:
        self._is_released = True
        for stream in self._all():
            stream.is_released = True
            stream.news.set()
        asyncio.get_running_loop().call_later(LEAVING_SECONDS, self._cut_all)

    def _cut_all(self) -> None:
        for stream in self._all():
            stream.cut()

    def _all(self) -> list[Stream]:
        return [stream for streams in self._open.values() for stream in streams]

    def _forget_draft(self, run: str, page: Page) -> None:
        draft = self._drafts.get(run)
        if draft is not None and draft.call <= page.superseded:
            self._drafts[run] = None

    def _watch_over(self, run: str) -> None:
        """Keeps a draft, and has it told, of exactly the runs that somebody here watches."""
        is_watched = any(each.superseded is not None for each in self.of(run))
        if is_watched == (run in self._drafts):
            return
        if is_watched:
            self._drafts[run] = None
        else:
            del self._drafts[run]
        self._watch(self._drafts.keys())
