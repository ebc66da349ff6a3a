"""Waiting for a state of another process, which nothing here can be told of."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")
# No test is about time that names no other: it ends a wait for what never comes.
TIMEOUT = 60.0
INTERVAL = 0.05


async def eventually(
    probe: Callable[[], Awaitable[T | None]],
    what: str | Callable[[], str],
    within: float = TIMEOUT,
) -> T:
    """The first answer of `probe` that is neither None nor False."""
    deadline = time.monotonic() + within
    while True:
        answer = await probe()
        if answer is not None and answer is not False:
            return answer
        if time.monotonic() > deadline:
            raise TimeoutError(
                f"not within {within} s: {what if isinstance(what, str) else what()}"
            )
        await asyncio.sleep(INTERVAL)


def in_time(seconds: float) -> float:
    """A bound that a fault breaks and a crowded machine does not; `bench` measures."""
    return seconds * (2.0 + os.getloadavg()[0] / (os.cpu_count() or 1))
