"""An agent without fault: a tool of each policy."""

import os
from typing import Any

import httpx
from sqlalchemy import text

from app import Agent, DidNotHappen, Happened, ToolContext, tool

Reply = dict[str, Any]
INSERT = text("insert into public.notes (run, text) values (:run, :text)")


async def order(ref: str, key: str | None = None) -> Reply:
    headers = {} if key is None else {"Idempotency-Key": key}
    async with httpx.AsyncClient(base_url=os.environ["SHOP_URL"]) as shop:
        answer = await shop.post("/orders", json={"ref": ref}, headers=headers)
    found: Reply = answer.raise_for_status().json()
    return found


async def count_orders(ref: str) -> int:
    async with httpx.AsyncClient(base_url=os.environ["SHOP_URL"]) as shop:
        answer = await shop.get("/orders", params={"ref": ref})
    return int(answer.raise_for_status().json()["found"])


async def find_order(ctx: ToolContext, args: Reply) -> Happened | DidNotHappen:
    return Happened({"found": args["ref"]}) if await count_orders(args["ref"]) else DidNotHappen()


@tool(replay="read_only")
async def look(ctx: ToolContext, ref: str) -> Reply:
    """Look an order up."""
    return {"found": await count_orders(ref)}


@tool(replay="idempotent", approval="always")
async def buy(ctx: ToolContext, ref: str) -> Reply:
    """Order something under a key."""
    return await order(ref, ctx.idempotency_key)


@tool(replay="at_most_once")
async def buy_once(ctx: ToolContext, ref: str) -> Reply:
    """Order something without a key."""
    return await order(ref)


@tool(replay="at_most_once", reconcile=find_order)
async def buy_surely(ctx: ToolContext, ref: str) -> Reply:
    """Order something without a key; the shop can be asked."""
    return await order(ref)


@tool(replay="transactional")
async def note(ctx: ToolContext, text: str) -> Reply:
    """Write a note with its outcome."""
    await ctx.connection.execute(INSERT, {"run": ctx.run_id, "text": text})
    return {"noted": text}


desk = Agent(
    name="sound",
    model="claude-sonnet-5",
    instructions="You buy.",
    tools=[look, buy, buy_once, buy_surely, note],
)
