"""Tools whose effect can be undone, of every policy that has one."""

import os
from dataclasses import replace
from typing import Any

from app import ToolContext, ToolError, tool
from tests.support.outside import Reply, effect, effect_sync
from tests.support.tools import INSERT_NOTE


async def _unbook(ctx: ToolContext, args: Reply) -> Reply:
    assert ctx.done is not None
    seen = {"undone": ctx.done.idempotency_key, "result": ctx.done.result}
    return await effect(f"unbook-{args['name']}", ctx, **seen)


async def _unnote(ctx: ToolContext, args: Reply) -> Reply:
    text = f"undone {args['name']}"
    await ctx.connection.execute(INSERT_NOTE, {"run": ctx.run_id, "text": text})
    await effect(f"unnote-{args['name']}", ctx)
    return {"noted": text}


async def _told(ctx: ToolContext, args: Reply) -> Reply:
    await effect(f"cannot-{args['name']}", ctx)
    raise ToolError("too late to be undone")


async def _cannot(ctx: ToolContext, args: Reply) -> Reply:
    await effect(f"cannot-{args['name']}", ctx)
    raise RuntimeError("it cannot be undone")


def _unbook_sync(ctx: ToolContext, args: dict[str, Any]) -> str:
    return f"undone {args['name']}"


@tool(replay="idempotent", compensate=_unbook, timeout=60)
async def book(ctx: ToolContext, name: str) -> Reply:
    """Book something that can be cancelled."""
    await effect(f"book-{name}", ctx)
    return {"booked": name}


@tool(compensate=_unbook, timeout=60)
async def book_once(ctx: ToolContext, name: str) -> Reply:
    """Book something that can be cancelled; neither may be repeated."""
    await effect(f"book-{name}", ctx)
    return {"booked": name}


@tool(replay="transactional", compensate=_unnote, timeout=60)
async def book_tx(ctx: ToolContext, name: str) -> Reply:
    """Write a note that a second note takes back."""
    await ctx.connection.execute(INSERT_NOTE, {"run": ctx.run_id, "text": name})
    return {"booked": name}


@tool(replay="idempotent", compensate=_cannot, attempts=2, timeout=60)
async def book_for_good(ctx: ToolContext, name: str) -> Reply:
    """Book something whose cancellation always fails."""
    await effect(f"book-{name}", ctx)
    return {"booked": name}


@tool(replay="idempotent", compensate=_unbook_sync, approval="always", timeout=60)
async def book_asked(ctx: ToolContext, name: str) -> Reply:
    """Book something, with a person's approval."""
    await effect(f"book-{name}", ctx)
    return {"booked": name}


@tool(replay="transactional", compensate=_cannot, attempts=2, timeout=60)
async def book_tx_for_good(ctx: ToolContext, name: str) -> Reply:
    """Write a note that cannot be taken back."""
    await ctx.connection.execute(INSERT_NOTE, {"run": ctx.run_id, "text": name})
    return {"booked": name}


@tool(replay="idempotent", compensate=_told, timeout=60)
async def book_too_late(ctx: ToolContext, name: str) -> Reply:
    """Book something whose cancellation is refused."""
    await effect(f"book-{name}", ctx)
    return {"booked": name}


@tool(external=True, compensate=_unbook)
async def book_by_client(ctx: ToolContext, name: str) -> Reply:
    """Have the client book something; its cancellation is ours."""
    raise AssertionError("a client runs it")


@tool(replay="idempotent", compensate=_unbook, timeout=60)
def book_sync(ctx: ToolContext, name: str) -> Reply:
    """Book something from a thread, which cannot be stopped."""
    effect_sync(f"book-{name}", ctx)
    return {"booked": name}


@tool(replay="idempotent", compensate=_unbook, timeout=60)
async def book_until_deploy(ctx: ToolContext, name: str) -> Reply:
    """Book something whose cancellation a deploy may take away."""
    await effect(f"book-{name}", ctx)
    return {"booked": name}


if os.environ.get("WITHOUT_HOOK"):
    book_until_deploy = replace(book_until_deploy, compensate=None)
