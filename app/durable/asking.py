"""Calls that run nothing here: they wait for a person, a client, the clock or another run."""

from datetime import datetime
from typing import assert_never

from app.domain.canonical import scrub
from app.durable import ledger
from app.durable.children import delegate
from app.durable.ledger import Call
from app.store.calls import Hold, Intent
from app.tools.declare import Tool


async def ask(call: Call, tool: Tool, intent: Intent, attempt: int) -> None:
    """The wait is the intent, its resolution the outcome."""
    match tool.waits:
        case "external":
            question = f"{tool.name} runs on the client's side: what did it come to?"
            await _hold(call, tool, intent, attempt, "external", question)
        case "input":
            await _hold(call, tool, intent, attempt, "input", scrub(intent.arguments["question"]))
        case "timer":
            await ledger.hold(call, intent, _sleep(intent), attempt)
        case "child":
            await delegate(call, intent, attempt)
        case None:
            raise AssertionError(f"{tool.name} is run, not waited for")
        case other:
            assert_never(other)


async def _hold(
    call: Call, tool: Tool, intent: Intent, attempt: int, kind: str, question: str
) -> None:
    seconds = None if tool.expires is None else tool.expires.total_seconds()
    await ledger.hold(call, intent, Hold("waiting", kind, question, seconds=seconds), attempt)


def _sleep(intent: Intent) -> Hold:
    arguments = intent.arguments
    if "at" in arguments:
        until = datetime.fromisoformat(arguments["at"])
        return Hold("waiting", "timer", "when to go on", until=until)
    return Hold("waiting", "timer", "when to go on", seconds=arguments["seconds"])
