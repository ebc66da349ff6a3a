"""Tools that break the promise they make."""

import os
import secrets
import socket
import subprocess
import sys
from typing import Any

import psycopg

from app import Agent, DidNotHappen, ToolContext, ToolError, tool
from tests.support.faults.sound import Reply, find_order, order

MEMORY: list[str] = []


async def deny(ctx: ToolContext, args: dict[str, Any]) -> DidNotHappen:
    return DidNotHappen()


@tool(replay="idempotent")
async def fresh_key(ctx: ToolContext, ref: str) -> Reply:
    """Order under a key that is new each time."""
    return await order(ref, secrets.token_hex())


@tool(replay="read_only")
async def effect_in_a_read(ctx: ToolContext, ref: str) -> Reply:
    """Order, and call it reading."""
    return await order(ref)


@tool(replay="transactional")
async def own_connection(ctx: ToolContext, text: str) -> Reply:
    """Write a note over a connection of its own."""
    url = os.environ["PERDURE_DATABASE_URL"]
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        await connection.execute(
            "insert into public.notes (run, text) values (%s, %s)", [ctx.run_id, text]
        )
    return {"noted": text}


@tool(replay="idempotent")
async def remember(ctx: ToolContext, ref: str) -> Reply:
    """Keep something in the memory of the process."""
    MEMORY.append(ref)
    return {}


@tool(replay="read_only")
async def recall(ctx: ToolContext) -> Reply:
    """Say what was kept."""
    if not MEMORY:
        raise ToolError("I remember nothing.")
    return {"kept": MEMORY[-1]}


@tool(replay="at_most_once", reconcile=find_order)
async def claims_anothers(ctx: ToolContext, ref: str) -> Reply:
    """Order; asked afterwards, it finds whatever order there is."""
    return await order(ref)


@tool(replay="at_most_once", reconcile=deny)
async def denies(ctx: ToolContext, ref: str) -> Reply:
    """Order; asked afterwards, it denies."""
    return await order(ref)


@tool(replay="transactional")
async def effect_in_a_transaction(ctx: ToolContext, ref: str) -> Reply:
    """Order in a transaction, which does not undo it."""
    return await order(ref)


@tool(replay="read_only")
def past_the_proxy(ctx: ToolContext, port: int) -> Reply:
    """Speak to somebody directly, and start a program."""
    with socket.create_connection(("127.0.0.1", port)):
        subprocess.run([sys.executable, "-c", ""], check=True)
    return {}


desk = Agent(
    name="faulty",
    model="claude-sonnet-5",
    instructions="You buy.",
    tools=[
        *(fresh_key, effect_in_a_read, own_connection, remember, recall),
        *(claims_anothers, denies, effect_in_a_transaction, past_the_proxy),
    ],
)
