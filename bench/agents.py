"""The agent under the stopwatch: tools that do nothing, one for each replay policy."""

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
