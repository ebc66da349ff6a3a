"""Asking the outside world whether an interrupted call happened."""

from app.domain.replay import Finding
from app.durable.context import context_for, log_failure, within
from app.durable.ledger import Call
from app.durable.results import fit
from app.tools.declare import Tool
from app.tools.outcomes import CannotTell, DidNotHappen, Happened


async def ask_world(call: Call, tool: Tool, attempt: int) -> tuple[Finding, object]:
    """The hook's finding, with the result if it happened. A hook that fails cannot tell."""
    ctx = context_for(call, tool, attempt)
    try:
        verdict = await within(tool, tool.ask_reconcile(ctx, call.arguments))
    except Exception as error:  # noqa: BLE001 - it is the hook's
        log_failure(ctx, f"the reconcile hook of {tool.name} failed", error)
        return Finding.CANNOT_TELL, None
    match verdict:
        case DidNotHappen():
            return Finding.DID_NOT_HAPPEN, None
        case CannotTell():
            return Finding.CANNOT_TELL, None
        case Happened(value):
            return Finding.HAPPENED, fit(tool, ctx, value)[0]
