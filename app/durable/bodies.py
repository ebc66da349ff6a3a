"""Model calls and tool bodies in hand, so that a cancel or a takeover can reach them."""

import asyncio
import threading
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")


class BodyCancelled(Exception):
    """The body was stopped because its run was cancelled or now belongs to another execution."""


@dataclass(eq=False)
class Body:
    run: str
    fence: int
    loop: asyncio.AbstractEventLoop
    task: asyncio.Task[Any]
    cancelled: threading.Event
    stoppable: bool

    def cancel(self) -> None:
        """From any thread. What runs in a thread cannot be stopped: it is told, and waited for."""
        if self.cancelled.is_set():
            return
        self.cancelled.set()
        if self.stoppable:
            self.loop.call_soon_threadsafe(self.task.cancel)


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
    ) -> T:
        """The result of `work`. Raises BodyCancelled where it was stopped, else what it raised."""
        loop = asyncio.get_running_loop()
        task = loop.create_task(work)
        body = Body(run, fence, loop, task, cancelled or threading.Event(), stoppable)
        with self._lock:
            self._bodies.add(body)
        try:
            await asyncio.wait({body.task})
        except asyncio.CancelledError:
            # The process is going down; the body goes with it.
            body.task.cancel()
            raise
        finally:
            with self._lock:
                self._bodies.discard(body)
        if body.task.cancelled():
            raise BodyCancelled
        return task.result()
