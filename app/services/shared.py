"""One look for all who ask meanwhile."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Shared(Generic[T]):
    """What it has found is good for `seconds`; a look that failed is good for nobody after it.

    It goes on when those who asked have left: a database that gives no answer is asked once.
    """

    def __init__(self, look: Callable[[], Awaitable[T]], seconds: float = 0.0) -> None:
        self._look = look
        self._seconds = seconds
        self._found: tuple[float, T] | None = None
        self._task: asyncio.Task[T] | None = None

    async def read(self) -> T:
        if self._found is not None and time.monotonic() - self._found[0] < self._seconds:
            return self._found[1]
        look = self.begin()
        await asyncio.wait({look})
        return look.result()

    def begin(self) -> asyncio.Task[T]:
        """To be waited for, not awaited: it is others' as well."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
            self._task.add_done_callback(_acknowledge)
        return self._task

    async def _run(self) -> T:
        found = await self._look()
        self._found = time.monotonic(), found
        return found


def _acknowledge(task: asyncio.Task[T]) -> None:
    """Else a failure that came too late for everybody would be logged as forgotten."""
    if not task.cancelled():
        task.exception()
