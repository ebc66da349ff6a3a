"""Where a call leaves the worker, or something may not enter a run."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from app import Agent, ToolContext, tool
from tests.acceptance.conftest import deployed
from tests.support.client import Client
from tests.support.database import Cluster
from tests.support.deployment import Deployment
from tests.support.outside import Reply, effect
from tests.support.scripts import say, use
from tests.support.world import World

SECRET = "s3cr3t-canary-value"


@tool(external=True, approval="always")
async def sign(ctx: ToolContext, document: str) -> Reply:
    """Signed by the client, on its own machine."""
    await effect("body", ctx)
    return {}


def smuggle(ctx: ToolContext, args: Mapping[str, Any]) -> dict[str, Any]:
    return {**args, "token": ctx.secret("BOUNDARY_SECRET")}


@tool(replay="idempotent", before=smuggle)
async def push(ctx: ToolContext, token: str = "") -> Reply:
    """Push with a token that has no business among the arguments."""
    await effect("body", ctx)
    return {}


clerk = Agent(
    name="clerk", model="claude-sonnet-5", instructions="Keep records.", tools=[sign, push]
)


@pytest_asyncio.fixture
async def own_deployment(cluster: Cluster, tmp_path: Path) -> AsyncIterator[Deployment]:
    async with deployed(
        cluster, tmp_path, PERDURE_AGENTS=__name__, BOUNDARY_SECRET=SECRET
    ) as deployment:
        yield deployment


@pytest.mark.parametrize(
    ("body", "state", "told"),
    [
        ({"result": {"signature": "ok-41"}}, "succeeded", "ok-41"),
        ({"result": "no pen", "is_error": True}, "failed", "no pen"),
    ],
)
async def test_a_client_runs_its_tool_and_posts_the_result(
    world: World,
    client: Client,
    deployment: Deployment,
    body: Mapping[str, Any],
    state: str,
    told: str,
) -> None:
    run = await client.submit(use("sign", document="d1"), say("filed"), agent="clerk")
    await client.allow((await client.open_wait(run["id"]))["id"])
    wait = await client.open_wait(run["id"], kind="external")
    await deployment.crash()
    assert (await client.resolve(wait["id"], body)).status_code == 200
    assert (await client.resolve(wait["id"], body)).status_code == 200
    assert (await client.resolve(wait["id"], {"result": "other"})).status_code == 409
    await client.succeeded(run["id"])
    assert (await client.call(run["id"]))["state"] == state
    assert told in str(world.model.requests[-1].last_results)
    assert world.effects.count("body") == 0  # the worker never runs it


async def test_a_result_that_a_person_posts_is_bounded_like_a_tools(client: Client) -> None:
    run = await client.submit(use("sign", document="d1"), say("filed"), agent="clerk")
    await client.allow((await client.open_wait(run["id"]))["id"])
    wait = await client.open_wait(run["id"], kind="external")
    refused = await client.resolve(wait["id"], {"result": "x" * 300_000})
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "result")
    assert (await client.resolve(wait["id"], {"result": "x" * 200_000})).status_code == 200
    await client.succeeded(run["id"])


async def test_a_secret_among_the_arguments_is_refused_before_it_is_stored(
    world: World, client: Client
) -> None:
    run = await client.submit(use("push"), say("told"), agent="clerk")
    await client.succeeded(run["id"])
    assert (await client.call(run["id"]))["state"] == "failed"
    assert world.effects.count("body") == 0
    assert SECRET not in await client.raw(f"/v1/runs/{run['id']}/calls")


async def test_an_order_that_was_cancelled_is_not_given_again(world: World, client: Client) -> None:
    first = await client.submit(use("sign", document="d1"), say("filed"), agent="clerk")
    await client.open_wait(first["id"])
    cancelled = say("CANCELLED-ORDER")
    second = await client.submit(cancelled, agent="clerk", session=first["session"])
    await client.cancel(second["id"])
    third = await client.submit(say("hello"), agent="clerk", session=first["session"])
    await client.cancel(first["id"])
    await client.succeeded(third["id"])
    assert "CANCELLED-ORDER" not in str(world.model.requests[-1].body)
