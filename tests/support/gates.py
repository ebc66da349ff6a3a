"""Gates hold one request inside its window until a test opens them or the caller's process dies."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

Receive = Callable[[], Awaitable[Any]]


class Disconnected(Exception):
    """The caller's connection died while its request was held."""


class Gate:
    """Holds arrivals `nth` to `nth + span - 1` at one point; earlier and later ones pass."""

    def __init__(self, point: str, nth: int = 1, span: int = 1) -> None:
        self.point = point
        self._held_numbers = range(nth, nth + span)
        self._arrivals = 0
        self._waiting: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}
        self._is_open = False
        self._changed = threading.Condition()

    async def reached(self, within: float = 20.0, holding: int = 1) -> None:
        """Returns once the gate has caught `holding` requests in all."""
        target = self._held_numbers.start + holding - 1
        await self._until(lambda: self._arrivals >= target, within, "was not reached")

    async def freed(self, within: float = 20.0) -> None:
        """Returns once no request is held any more (opened, or its caller is dead)."""
        await self._until(lambda: not self._waiting, within, "still holds a request")

    def open(self) -> None:
        with self._changed:
            self._is_open = True
            for event, loop in self._waiting.items():
                loop.call_soon_threadsafe(event.set)

    @property
    def arrivals(self) -> int:
        return self._arrivals

    @property
    def held(self) -> int:
        return len(self._waiting)

    def arrive(self) -> asyncio.Event | None:
        """World side: counts a request; the event that it must await if it is to be held."""
        with self._changed:
            self._arrivals += 1
            opened = None
            if not self._is_open and self._arrivals in self._held_numbers:
                opened = asyncio.Event()
                self._waiting[opened] = asyncio.get_running_loop()
            self._changed.notify_all()
            return opened

    async def hold(self, opened: asyncio.Event, receive: Receive) -> None:
        """World side: returns when the request may go on, raises `Disconnected` when it is dead."""
        try:
            await _opened_or_disconnected(opened, receive)
        finally:
            with self._changed:
                del self._waiting[opened]
                self._changed.notify_all()

    async def _until(self, condition: Callable[[], bool], within: float, complaint: str) -> None:
        def wait() -> bool:
            with self._changed:
                return self._changed.wait_for(condition, within)

        if not await asyncio.to_thread(wait):
            raise TimeoutError(f"gate {self.point!r} {complaint} within {within} s")


async def _opened_or_disconnected(opened: asyncio.Event, receive: Receive) -> None:
    opening = asyncio.ensure_future(opened.wait())
    dying = asyncio.ensure_future(_disconnect(receive))
    try:
        await asyncio.wait({opening, dying}, return_when=asyncio.FIRST_COMPLETED)
        if not opening.done():
            raise Disconnected
    finally:
        opening.cancel()
        dying.cancel()


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


@dataclass
class Gates:
    """All gates of one world, by the point that they guard."""

    _by_point: dict[str, list[Gate]] = field(default_factory=dict)

    def add(self, point: str, nth: int = 1, span: int = 1) -> Gate:
        gate = Gate(point, nth, span)
        self._by_point.setdefault(point, []).append(gate)
        return gate

    async def pass_through(self, point: str, receive: Receive) -> None:
        caught = [(gate, gate.arrive()) for gate in self._by_point.get(point, ())]
        for gate, opened in caught:
            if opened is not None:
                await gate.hold(opened, receive)

    def open_all(self) -> None:
        for gates in self._by_point.values():
            for gate in gates:
                gate.open()
