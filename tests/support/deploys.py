"""Agents of two releases; DEPLOY says which of them a process has."""

import os

from app import Agent, ToolContext, tool
from app.durable import leg
from app.durable.border import open_leg
from tests.support.odd_tools import count
from tests.support.outside import Reply, effect, pay
from tests.support.tools import doc_read, find_payment, pay_idem, refund

DEPLOY = os.environ.get("DEPLOY", "v1")
NEW = DEPLOY != "v1"
MODEL = "claude-sonnet-5"


@tool(replay="at_most_once" if NEW else "idempotent", timeout=60)
async def loosened(ctx: ToolContext, ref: str, amount: int = 100) -> Reply:
    """Was idempotent, and is at_most_once now."""
    return await pay(ref, amount, ctx.idempotency_key)


@tool(replay="idempotent" if NEW else "at_most_once", timeout=60)
async def tightened(ctx: ToolContext, ref: str, amount: int = 100) -> Reply:
    """Was at_most_once, and is idempotent now."""
    return await pay(ref, amount, ctx.idempotency_key)


@tool(replay="idempotent" if NEW else "read_only", timeout=60)
async def looked_up(ctx: ToolContext, name: str) -> Reply:
    """Was read_only, and is idempotent now."""
    return await effect(name, ctx)


async def _pay_as_agreed(ctx: ToolContext, ref: str) -> Reply:
    return await pay(ref, 100, ctx.idempotency_key)


async def _pay_in_currency(ctx: ToolContext, ref: str, currency: str) -> Reply:
    return await pay(ref, 100, ctx.idempotency_key)


# Takes one argument more than it did.
reshaped = tool(
    name="reshaped",
    description="Pay.",
    replay="idempotent",
    reconcile=find_payment,
    timeout=60,
)(_pay_in_currency if NEW else _pay_as_agreed)


@tool(replay="idempotent", timeout=60)
async def gone(ctx: ToolContext, ref: str, amount: int = 100) -> Reply:
    """Is no longer there."""
    return await pay(ref, amount, ctx.idempotency_key)


@tool(replay="idempotent", approval="always", timeout=60)
async def gone_asked(ctx: ToolContext, ref: str) -> Reply:
    """Is no longer there, and asked a person."""
    return await pay(ref, 100, ctx.idempotency_key)


KEPT = [loosened, tightened, reshaped, looked_up, count, pay_idem, doc_read, refund]

shop = Agent(
    name="shop",
    model=MODEL,
    instructions="Release two." if NEW else "Release one.",
    tools=KEPT if NEW else [*KEPT, gone, gone_asked],
)
renamed = Agent(
    name="scribe" if NEW else "clerk", model=MODEL, instructions="Write.", tools=[refund]
)


def look_before_each_batch() -> None:
    """A loop with one more step: what an earlier release has journaled no longer fits."""
    run_calls = leg._run_calls

    async def look_first(run: str, turn: int, indexes: tuple[int, ...]) -> list[Reply]:
        await open_leg(run, 0)
        return await run_calls(run, turn, indexes)

    leg._run_calls = look_first


if DEPLOY == "v3":
    look_before_each_batch()
