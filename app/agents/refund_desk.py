"""A refund desk: three tools, each with another promise about running it again.

More than LARGE_CENTS leaves only once a person has allowed it.
The payment provider is at PAYMENTS_URL; `app.agents.provider` is one to play with.
"""

import os
import ssl
from datetime import timedelta
from functools import cache
from typing import Annotated, Any

import httpx
from pydantic import Field

from app import Agent, Limits, ToolContext, ToolError, tool

OrderId = Annotated[str, Field(pattern=r"^[A-Za-z0-9-]{1,40}$", description="As on the receipt")]
Cents = Annotated[int, Field(gt=0, description="The amount in cents: 1250 is 12.50")]
LARGE_CENTS = 100_000
PATIENCE = timedelta(days=2)


def is_large(ctx: ToolContext, args: dict[str, Any]) -> bool:
    return bool(args["cents"] > LARGE_CENTS)


async def read_order(ctx: ToolContext, args: dict[str, Any]) -> dict[str, Any]:
    """The evidence for a person; if it has changed when they allow it, they are asked anew."""
    async with provider(ctx) as http:
        return answer(await http.get(f"/orders/{args['order_id']}"))


@tool(replay="read_only")
async def find_order(ctx: ToolContext, order_id: OrderId) -> dict[str, Any]:
    """Look up an order: its customer, its total and what was refunded so far."""
    return await read_order(ctx, {"order_id": order_id})


@tool(
    replay="idempotent",
    approval=is_large,
    expires=PATIENCE,
    precondition=read_order,
    on_unknown="tell_model",
)
async def refund(ctx: ToolContext, order_id: OrderId, cents: Cents) -> dict[str, Any]:
    """Refund part of an order to the card it was paid with."""
    # The provider knows this key: after a crash the same call runs again, and pays nothing twice.
    headers = {"Idempotency-Key": ctx.idempotency_key}
    body = {"order_id": order_id, "cents": cents}
    async with provider(ctx) as http:
        return answer(await http.post("/refunds", json=body, headers=headers))


@tool(
    replay="at_most_once",
    approval=is_large,
    expires=PATIENCE,
    precondition=read_order,
    on_unknown="tell_model",
)
async def wire_transfer(ctx: ToolContext, order_id: OrderId, cents: Cents) -> dict[str, Any]:
    """Send the money by bank transfer, if the card can no longer be refunded."""
    # The bank takes no key and cannot be asked: after a crash the outcome is unknown, and said so.
    async with provider(ctx) as http:
        return answer(await http.post("/transfers", json={"order_id": order_id, "cents": cents}))


def provider(ctx: ToolContext) -> httpx.AsyncClient:
    # trust_env: a proxy meant for the internet must not come before a provider on this machine.
    return httpx.AsyncClient(
        base_url=os.environ.get("PAYMENTS_URL", "http://127.0.0.1:8081"),
        headers={"Authorization": f"Bearer {ctx.secret('PAYMENTS_KEY', default='demo')}"},
        timeout=30,
        verify=tls(),
        trust_env=False,
    )


@cache
def tls() -> ssl.SSLContext:
    """Loading the certificates takes longer than a call."""
    return ssl.create_default_context()


def answer(response: httpx.Response) -> dict[str, Any]:
    """A refusal is for the model; any other failure is Perdure's to judge by the promise made."""
    if response.is_client_error:
        raise ToolError(response.json()["error"])
    body: dict[str, Any] = response.raise_for_status().json()
    return body


refund_desk = Agent(
    name="refund-desk",
    model="claude-sonnet-5",
    instructions=(
        "You handle refund requests. Look the order up first, never refund more than its total, "
        "and say in one sentence what you did. If an outcome is unknown, say so and do not retry. "
        "A person decides on large amounts; if the answer is no, do not pay in another way."
    ),
    tools=[find_order, refund, wire_transfer],
    limits=Limits(turns=20),
)
