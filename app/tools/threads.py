"""Sync code beside the event loop."""

import asyncio
import contextvars
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from app.tools.errors import ToolAborted

_MISLEADING = (
    asyncio.CancelledError,
    GeneratorExit,
    KeyboardInterrupt,
    StopIteration,
    SystemExit,
)


async def run_in_thread(function: Callable[[], object]) -> object:
    """Run it in a thread of its own with the caller's context variables.

    A thread cannot be stopped. One that hangs must neither use up a shared pool nor keep the
    process from ending, so each call gets a daemon thread.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[object] = loop.create_future()
    context = contextvars.copy_context()

    def settle(how: Callable[[Any], None], value: object) -> None:
        if not future.done():
            how(value)

    def run() -> None:
        how: Callable[[Any], None] = future.set_result
        try:
            value = context.run(function)
        except BaseException as error:  # noqa: BLE001 - handed to whoever awaits
            how, value = future.set_exception, _transferable(error)
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, how, value)

    threading.Thread(target=run, name="perdure-tool", daemon=True).start()
    return await future


def _transferable(error: BaseException) -> BaseException:
    """In the awaiting task these would mean that the task, the loop or the process must end."""
    if not isinstance(error, _MISLEADING):
        return error
    aborted = ToolAborted(f"raised {type(error).__name__}")
    aborted.__cause__ = error
    return aborted
