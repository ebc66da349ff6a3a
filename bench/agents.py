"""Agents under the stopwatch: `runner` has tools that do nothing, one for each replay policy;
`clerk` asks a person before it does what the outside sees."""

import functools
import os

import httpx

from app import Agent, Limits, ToolContext, tool


@tool(replay="read_only")
async def read_only(n: int) -> int:
    """Answer with the number."""
    return n


@tool(replay="idempotent")
async def idempotent(n: int) -> int:
    """Answer with the number."""
    return n


@tool(replay="transactional")
async def transactional(ctx: ToolContext, n: int) -> int:
    """Answer with the number; the outcome is committed with an effect that is none."""
    return n


@tool(replay="at_most_once")
async def at_most_once(n: int) -> int:
    """Answer with the number."""
    return n


runner = Agent(
    name="runner",
    model="claude-sonnet-5",
    instructions="You do what the benchmark says.",
    tools=[read_only, idempotent, transactional, at_most_once],
    limits=Limits(turns=1000),
)


@tool(replay="at_most_once", approval="always")
async def pay(ctx: ToolContext, n: int) -> int:
    """Leave a mark outside."""
    answer = await _outside().post("/bench/effects", params={"key": ctx.idempotency_key})
    answer.raise_for_status()
    return n


@functools.cache
def _outside() -> httpx.AsyncClient:
    """The server that the model is on; one client, as a tool in earnest would have."""
    return httpx.AsyncClient(base_url=os.environ["ANTHROPIC_BASE_URL"], timeout=30)


clerk = Agent(
    name="clerk",
    model="claude-sonnet-5",
    instructions="You pay what the benchmark says.",
    tools=[pay],
)
