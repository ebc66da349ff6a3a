"""Tools that end badly, return odd things, or show how the machinery treats them."""

import asyncio
from typing import Any

from app import ToolContext, ToolError, tool
from tests.support.outside import Reply, effect, effect_sync, post
from tests.support.tools import INSERT_NOTE


class Undeclared(Exception):
    """An exception that no tool announced."""


@tool()
async def user_error(ctx: ToolContext, text: str) -> Reply:
    """Fail in the declared way."""
    await effect("user_error", ctx)
    raise ToolError(text)


@tool(replay="read_only")
async def crash_read(ctx: ToolContext) -> Reply:
    """Raise something undeclared."""
    await effect("crash_read", ctx)
    raise Undeclared("boom")


@tool(replay="idempotent")
async def crash_idem(ctx: ToolContext) -> Reply:
    """Raise something undeclared."""
    await effect("crash_idem", ctx)
    raise Undeclared("boom")


@tool()
async def crash_once(ctx: ToolContext) -> Reply:
    """Raise something undeclared after the effect."""
    await effect("crash_once", ctx)
    raise Undeclared("boom")


@tool(replay="transactional")
async def crash_tx(ctx: ToolContext, text: str) -> Reply:
    """Write a note, then raise something undeclared."""
    await ctx.connection.execute(INSERT_NOTE, {"run": ctx.run_id, "text": text})
    await effect("crash_tx", ctx)
    raise Undeclared("boom")


@tool(replay="idempotent")
async def flaky(ctx: ToolContext, failures: int) -> Reply:
    """Fail that many times, then succeed."""
    seen = await effect("flaky", ctx)
    if seen["count"] <= failures:
        raise Undeclared("not yet")
    return {"attempt": ctx.attempt}


@tool(timeout=0.3)
async def times_out(ctx: ToolContext) -> Reply:
    """Take longer than allowed after the effect."""
    await effect("times_out", ctx)
    await asyncio.sleep(60)
    return {}


@tool(replay="read_only", timeout=60)
def interpreter_exit(ctx: ToolContext) -> Reply:
    """Ask the interpreter to exit."""
    raise SystemExit(3)


@tool(replay="idempotent")
async def big(ctx: ToolContext, size: int) -> str:
    """Return a text of that many characters."""
    await effect("big", ctx)
    return "x" * size


@tool(replay="read_only")
async def big_read(ctx: ToolContext, size: int) -> str:
    """Read a text of that many characters."""
    return "x" * size


@tool(replay="read_only")
async def echo(ctx: ToolContext, value: Any) -> Any:  # noqa: ANN401
    """Return the argument."""
    return value


@tool(replay="read_only")
async def nul(ctx: ToolContext) -> Reply:
    """Return a NUL, a lone surrogate, and the literal text of an escaped NUL."""
    return {"nul": "a\x00b", "surrogate": "a\ud800b", "literal": "\\u0000"}


@tool(replay="idempotent")
async def unencodable(ctx: ToolContext) -> Any:  # noqa: ANN401
    """Return something that is no JSON."""
    await effect("unencodable", ctx)
    return {"when": object()}


@tool(replay="idempotent", timeout=60)
async def count(ctx: ToolContext, name: str) -> Reply:
    """Be counted by the world, at the gates `<name>:before` and `<name>:after`."""
    return await effect(name, ctx)


@tool(replay="idempotent", timeout=60)
def count_sync(ctx: ToolContext, name: str) -> Reply:
    """The same from a thread."""
    return effect_sync(name, ctx)


@tool(replay="read_only", timeout=60)
async def nap(ctx: ToolContext, seconds: float) -> Reply:
    """Sleep."""
    await effect("nap", ctx)
    await asyncio.sleep(seconds)
    return {"slept": seconds}


@tool(timeout=30)
async def until_cancelled(ctx: ToolContext) -> Reply:
    """Work until the run is cancelled."""
    await effect("until_cancelled", ctx)
    while not ctx.cancelled:  # noqa: ASYNC110 - a flag is all that a tool is given
        await asyncio.sleep(0.05)
    return {"stopped": True}


@tool(replay="idempotent")
async def with_secret(ctx: ToolContext, leak: str = "none") -> Reply:
    """Use a credential; on demand, leak it in the result or in an error."""
    secret = ctx.secret("CANARY_TOOL_SECRET")
    await post("/effect", {"name": "with_secret", "details": {"secret": secret}})
    if leak == "error":
        raise ToolError(f"401 for {secret}")
    if leak == "exception":
        raise Undeclared(f"401 for {secret}")
    return {"authorization": secret} if leak == "result" else {"ok": True}


async def upper_case(ctx: ToolContext, args: Reply) -> Reply:
    await effect("before_hook", ctx)
    return args | {"text": args["text"].upper()}


@tool(replay="idempotent", before=upper_case)
async def shout(ctx: ToolContext, text: str) -> Reply:
    """Say it in capitals."""
    await effect("shout", ctx, text=text)
    return {"said": text}
