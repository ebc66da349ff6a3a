"""The body of a tool, and how it ended."""

import threading
import time
from dataclasses import dataclass

from app.domain.canonical import encode
from app.domain.replay import End
from app.durable.bodies import Stopped
from app.durable.context import context_for, log_failure, told_by
from app.durable.execution import bench, execution
from app.durable.ledger import Call
from app.durable.results import fit
from app.tools.context import ToolContext
from app.tools.declare import Tool
from app.tools.outcomes import ToolError


@dataclass(frozen=True)
class Returned:
    """The body returned after `took` seconds; `result` is fit to be stored and told."""

    result: object
    took: float = 0.0


@dataclass(frozen=True)
class Ended:
    """The body ended without a result; `detail` is fit for the model."""

    how: End
    detail: str
    over: bool = True  # it can act no more
    took: float = 0.0


async def run_body(
    call: Call, tool: Tool, attempt: int, connection: object = None
) -> Returned | Ended:
    """Never raises for what the tool does."""
    me = execution()
    cancelled = threading.Event()
    ctx = context_for(call, tool, attempt, connection=connection, cancelled=cancelled)
    watch = Watch(tool, ctx)
    try:
        value = await bench().bodies.run(
            me.run,
            me.fence,
            tool.invoke(ctx, call.arguments),
            cancelled=cancelled,
            stoppable=tool.is_async,
            undoes=call.undoes,
            seconds=tool.timeout,
        )
    except Stopped as stopped:
        return watch.stopped(stopped)
    except Exception as error:  # noqa: BLE001 - it is the tool's, and becomes its outcome
        return watch.ended(error)
    return watch.returned(value)


class Watch:
    """Over one attempt: what may leave it, and in which words."""

    def __init__(self, tool: Tool, ctx: ToolContext) -> None:
        self.tool = tool
        self.ctx = ctx
        self._began = time.monotonic()

    @property
    def took(self) -> float:
        return time.monotonic() - self._began

    def returned(self, value: object) -> Returned | Ended:
        """Once the effect is done, a result that cannot be kept does not undo it."""
        result, lost = fit(self.tool, self.ctx, value)
        if lost and self.tool.replay == "read_only":
            detail = f"The result of {self.tool.name} cannot be shown: {encode(result)}"
            return Ended(End.TOLD, detail, took=self.took)
        return Returned(result, self.took)

    def ended(self, error: Exception) -> Ended:
        name = self.tool.name
        if isinstance(error, ToolError):
            detail = told_by(self.ctx, error) or "The tool failed."
            return Ended(End.TOLD, detail, took=self.took)
        # The text of an undeclared exception may hold anything; it stands only in the log.
        log_failure(self.ctx, f"{name} raised", error)
        return Ended(End.RAISED, f"{name} failed with {type(error).__name__}.", took=self.took)

    def stopped(self, stopped: Stopped) -> Ended:
        if not stopped.timed_out:
            detail = "The call was cancelled while it was running."
            return Ended(End.CANCELLED, detail, stopped.over, self.took)
        detail = f"{self.tool.name} did not end within {self.tool.timeout:g} s."
        how = End.TIMED_OUT if stopped.over else End.STILL_RUNNING
        return Ended(how, detail, stopped.over, self.took)
