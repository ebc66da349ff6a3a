"""What a tool is given to work with."""

import asyncio
import logging
import threading
import traceback
from collections.abc import Awaitable
from functools import partial
from typing import Any, TypeVar

from app.domain.canonical import scrub
from app.domain.ids import idempotency_key
from app.durable.execution import execution
from app.durable.ledger import Call
from app.tools.context import Done, ToolContext
from app.tools.declare import Tool

log = logging.getLogger(__name__)

T = TypeVar("T")

# Characters of an error; a conversation has to bear them.
LONGEST_TOLD = 64 * 1024


def context_for(
    call: Call,
    tool: Tool,
    attempt: int,
    *,
    connection: Any = None,  # noqa: ANN401 - SQLAlchemy's, sync or async
    cancelled: threading.Event | None = None,
) -> ToolContext:
    me, row = execution(), call.row
    done = None
    if call.undoes:
        key = idempotency_key(me.run, row["done_turn"], row["done_index"])
        done = Done(key, row["done_result"])
    return ToolContext(
        run_id=me.run,
        session_id=row["session"],
        agent=row["agent"],
        turn=row["turn"],
        index=row["index"],
        attempt=attempt,
        idempotency_key=idempotency_key(me.run, row["turn"], row["index"]),
        fence=me.fence,
        done=done,
        connection=connection,
        cancelled=cancelled,
        on_progress=partial(log.info, "%s: %s", tool.name),
    )


def told_by(ctx: ToolContext, error: Exception) -> str:
    """What a declared error says, as far as it can be told; its class may be the tool's own."""
    try:
        text = str(error)
    except Exception as broken:  # noqa: BLE001 - as above
        log_failure(ctx, f"{type(error).__name__} cannot be told", broken)
        return ""
    return scrub(ctx.redact(text))[:LONGEST_TOLD]  # type: ignore[no-any-return]


def log_failure(ctx: ToolContext, what: str, error: BaseException) -> None:
    """With its traceback, which stands nowhere else, less the secrets the tool was given."""
    try:
        shown = "".join(traceback.format_exception(error))
    except Exception as broken:  # noqa: BLE001 - the error's class may be the tool's own
        shown = f"{type(error).__name__} cannot be shown: {type(broken).__name__}"
    log.warning("%s\n%s", what, ctx.redact(shown))


async def within(tool: Tool, hook: Awaitable[T]) -> T:
    """A hook has as long as the tool itself; a TimeoutError is an exception of the hook."""
    async with asyncio.timeout(tool.timeout):
        return await hook
