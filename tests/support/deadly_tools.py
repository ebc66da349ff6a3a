"""Tools that take their process with them."""

import os
import resource
import signal
from contextlib import suppress
from pathlib import Path

from app import ToolContext, tool
from tests.support.outside import Reply, effect

CHUNK = 8 << 20
ROOM = 256 << 20
# Never more, if nobody ends it.
MOST_CHUNKS = 128


@tool(replay="idempotent", timeout=60)
async def deadly(ctx: ToolContext, deaths: int, how: str = "sigkill", group: str = "") -> Reply:
    """End the process that runs it, the first `deaths` times; with its memory in a `group`."""
    seen = await effect("deadly", ctx)
    if seen["count"] <= deaths:
        _die(how, group)
    return {"attempt": ctx.attempt}


@tool(replay="read_only", timeout=60)
async def deadly_read(ctx: ToolContext, deaths: int) -> Reply:
    """The same without an intent in the ledger."""
    seen = await effect("deadly_read", ctx)
    if seen["count"] <= deaths:
        _die("sigkill", "")
    return {"attempt": ctx.attempt}


def _die(how: str, group: str) -> None:
    match how:
        case "memory":
            _use_up_memory(group)
        case "exit":
            os._exit(3)
        case "abort":
            os.abort()
        case "group":
            os.killpg(0, signal.SIGKILL)
        case _:
            os.kill(os.getpid(), signal.SIGKILL)


def _use_up_memory(group: str) -> None:
    """Until the kernel ends it in its group; without one, until there is no more to be had."""
    if group:
        Path(group, "cgroup.procs").write_text(str(os.getpid()))
    else:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + ROOM, -1))
    with suppress(MemoryError):
        hoard = [b"x" * CHUNK for _ in range(MOST_CHUNKS)]
        del hoard
    os.abort()
