"""Model calls and tool bodies in hand, so that a cancel, a takeover or the clock can reach them."""

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")

# How long a body that was told to stop is waited for.
STOPPING_SECONDS = 2.0


class Stopped(Exception):
    """The body was told to stop: its run was cancelled or taken over, or its time was up.

    `over`: it is known to have ended, and can act no more.
    """

    def __init__(self, *, timed_out: bool, over: bool) -> None:
        super().__init__()
        self.timed_out = timed_out
        self.over = over


@dataclass(eq=False)
class Body:
    run: str
    fence: int
    loop: asyncio.AbstractEventLoop
    told: asyncio.Event
    cancelled: threading.Event
    undoes: bool

    def cancel(self) -> None:
        """From any thread."""
        if not self.cancelled.is_set():
            self.cancelled.set()
            with suppress(RuntimeError):  # its loop has ended
                self.loop.call_soon_threadsafe(self.told.set)


class Bodies:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bodies: set[Body] = set()

    def in_hand(self) -> list[Body]:
        with self._lock:
            return list(self._bodies)

    async def run(
        self,
        run: str,
        fence: int,
        work: Coroutine[Any, Any, T],
        *,
        cancelled: threading.Event | None = None,
        stoppable: bool = True,
        undoes: bool = False,
        seconds: float | None = None,
    ) -> T:
        """What `work` returns or raises; Stopped, if it was told to stop and gave no result.

        A body that is not `stoppable` runs in a thread: when it is cancelled it is told, and
        waited for; when its time is up it is left behind. No cancel ends one that `undoes`.
        """
        loop = asyncio.get_running_loop()
        task = loop.create_task(work)
        body = Body(run, fence, loop, asyncio.Event(), cancelled or threading.Event(), undoes)
        with self._lock:
            self._bodies.add(body)
        try:
            timed_out = await self._wait(task, body, stoppable, seconds)
        except asyncio.CancelledError:
            # The process is going down; the body goes with it.
            task.cancel()
            raise
        finally:
            with self._lock:
                self._bodies.discard(body)
        if task.cancelled():
            raise Stopped(timed_out=timed_out, over=True)
        return task.result()

    async def _wait(
        self, task: asyncio.Task[Any], body: Body, stoppable: bool, seconds: float | None
    ) -> bool:
        """Until the body has ended; whether its time was up. Stopped, if it ignores its end."""
        told = asyncio.ensure_future(body.told.wait())
        try:
            ends = {task, told} if stoppable else {task}
            await asyncio.wait(ends, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            told.cancel()
        if task.done():
            return False
        timed_out = not body.told.is_set()
        body.cancelled.set()
        if stoppable:
            task.cancel()
            await asyncio.wait({task}, timeout=STOPPING_SECONDS)
        if not task.done():
            raise Stopped(timed_out=timed_out, over=False)
        return timed_out
