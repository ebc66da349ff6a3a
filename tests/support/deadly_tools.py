"""Tools that take their process with them."""

import os
import signal

from app import ToolContext, tool
from tests.support.outside import Reply, effect


@tool(replay="idempotent", timeout=60)
async def deadly(ctx: ToolContext, deaths: int, how: str = "sigkill") -> Reply:
    """End the process that runs it, the first `deaths` times."""
    seen = await effect("deadly", ctx)
    if seen["count"] <= deaths:
        _die(how)
    return {"attempt": ctx.attempt}


@tool(replay="read_only", timeout=60)
async def deadly_read(ctx: ToolContext, deaths: int) -> Reply:
    """The same without an intent in the ledger."""
    seen = await effect("deadly_read", ctx)
    if seen["count"] <= deaths:
        _die("sigkill")
    return {"attempt": ctx.attempt}


def _die(how: str) -> None:
    match how:
        case "exit":
            os._exit(3)
        case "abort":
            os.abort()
        case "group":
            os.killpg(0, signal.SIGKILL)
        case _:
            os.kill(os.getpid(), signal.SIGKILL)
