"""The body of a tool, and how it ended."""

import asyncio
import threading
import time
from dataclasses import dataclass

from app.domain.canonical import encode, scrub
from app.domain.replay import End
from app.durable.bodies import BodyCancelled
from app.durable.context import context_for, log_failure
from app.durable.execution import bench, execution
from app.durable.ledger import Call
from app.durable.results import fit
from app.tools.context import ToolContext
from app.tools.declare import Tool
from app.tools.outcomes import ToolError


@dataclass(frozen=True)
class Returned:
    """The body returned; `result` is fit to be stored and told."""

    result: object


@dataclass(frozen=True)
class Ended:
    """The body ended without a result; `detail` is fit for the model."""

    how: End
    detail: str


async def run_body(
    call: Call, tool: Tool, attempt: int, connection: object = None
) -> Returned | Ended:
    """Never raises for what the tool does."""
    me = execution()
    cancelled = threading.Event()
    ctx = context_for(call, tool, attempt, connection=connection, cancelled=cancelled)
    work = asyncio.wait_for(tool.invoke(ctx, call.arguments), tool.timeout)
    watch = Watch(tool, ctx, cancelled)
    try:
        value = await bench().bodies.run(
            me.run, me.fence, work, cancelled=cancelled, stoppable=tool.is_async
        )
    except BodyCancelled:
        return Ended(End.CANCELLED, "The call was cancelled while it was running.")
    except Exception as error:  # noqa: BLE001 - it is the tool's, and becomes its outcome
        return watch.ended(error)
    return watch.returned(value)


class Watch:
    """Over one attempt: its time, and what may leave it."""

    def __init__(self, tool: Tool, ctx: ToolContext, cancelled: threading.Event) -> None:
        self.tool = tool
        self.ctx = ctx
        self.cancelled = cancelled
        self.began = time.monotonic()

    def returned(self, value: object) -> Returned | Ended:
        """Once the effect is done, a result that cannot be kept does not undo it."""
        result, lost = fit(self.tool, self.ctx, value)
        if lost and self.tool.replay == "read_only":
            return Ended(
                End.TOLD, f"The result of {self.tool.name} cannot be shown: {encode(result)}"
            )
        return Returned(result)

    def ended(self, error: Exception) -> Ended:
        name, limit = self.tool.name, self.tool.timeout
        if isinstance(error, ToolError):
            return Ended(End.TOLD, scrub(self.ctx.redact(str(error))) or "The tool failed.")
        if isinstance(error, TimeoutError) and limit and time.monotonic() - self.began >= limit:
            self.cancelled.set()
            how = End.TIMED_OUT if self.tool.is_async else End.STILL_RUNNING
            return Ended(how, f"{name} did not end within {limit:g} s.")
        # The text of an undeclared exception may hold anything; it stands only in the log.
        log_failure(self.ctx, f"{name} raised", error)
        return Ended(End.RAISED, f"{name} failed with {type(error).__name__}.")
