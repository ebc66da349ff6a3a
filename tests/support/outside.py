"""How the tools of the workers under test reach the world server at WORLD_URL."""

import os
from typing import Any

import httpx

from app import ToolContext

Reply = dict[str, Any]


async def get(path: str, **params: str) -> Reply:
    async with httpx.AsyncClient(base_url=os.environ["WORLD_URL"], timeout=90) as world:
        return body_of(await world.get(path, params=params))


async def post(path: str, body: Reply, headers: dict[str, str] | None = None) -> Reply:
    async with httpx.AsyncClient(base_url=os.environ["WORLD_URL"], timeout=90) as world:
        return body_of(await world.post(path, json=body, headers=headers))


def body_of(response: httpx.Response) -> Reply:
    response.raise_for_status()
    body: Reply = response.json()
    return body


async def pay(ref: str, amount: int, key: str | None = None) -> Reply:
    headers = {"Idempotency-Key": key} if key else None
    return await post("/pay", {"ref": ref, "amount": amount}, headers)


async def effect(name: str, ctx: ToolContext | None = None, **details: Any) -> Reply:
    if ctx is not None:
        details |= _who(ctx)
    return await post("/effect", {"name": name, "details": details})


def effect_sync(name: str, ctx: ToolContext) -> Reply:
    """The same from a thread."""
    with httpx.Client(base_url=os.environ["WORLD_URL"], timeout=90) as world:
        return body_of(world.post("/effect", json={"name": name, "details": _who(ctx)}))


def _who(ctx: ToolContext) -> Reply:
    return {"run": ctx.run_id, "attempt": ctx.attempt, "key": ctx.idempotency_key}
