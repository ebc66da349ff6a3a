"""A credential is used, and stands nowhere afterwards."""

import base64
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.acceptance.conftest import deployed
from tests.support.client import Client
from tests.support.database import Cluster
from tests.support.deployment import Deployment
from tests.support.inspection import dump
from tests.support.scripts import say, use
from tests.support.world import World

CANARIES = {
    "CANARY_TOOL_SECRET": "canary-of-the-tool-5f2a",
    "ANTHROPIC_API_KEY": "canary-of-the-model-77c1",
    "CANARY_ENVIRONMENT": "canary-of-the-service-90d3",
}
LISTS = ["/v1/runs", "/v1/waits", "/v1/agents", "/v1/tools", "/openapi.json", "/health/ready"]


@pytest_asyncio.fixture
async def own_deployment(cluster: Cluster, tmp_path: Path) -> AsyncIterator[Deployment]:
    async with deployed(cluster, tmp_path, 1, **CANARIES) as deployment:
        yield deployment


@pytest.mark.case("A51")
async def test_a_secret_reaches_the_tool_and_nothing_else(
    world: World, client: Client, deployment: Deployment
) -> None:
    leaks = ("none", "result", "error", "exception")
    run = await client.submit(*(use("with_secret", leak=leak) for leak in leaks), say("done"))
    await client.succeeded(run["id"], within=60)
    used = [effect["secret"] for effect in world.effects.details("with_secret")]
    assert set(used) == {CANARIES["CANARY_TOOL_SECRET"]}

    parts = [f"/v1/runs/{run['id']}{part}" for part in ("", "/calls", "/turns", "/events")]
    answers = [await client.raw(path) for path in parts + LISTS]
    asked = [request.raw.decode() for request in world.model.requests]
    logs = [process.text() for process in deployment.started]
    assert_no_canary(dump(deployment.database_url), *answers, *asked, *logs)


def assert_no_canary(*texts: str) -> None:
    for name, value in CANARIES.items():
        hidden = (value, value.encode().hex(), base64.b64encode(value.encode()).decode())
        for text in texts:
            found = [form for form in hidden if form in text]
            assert not found, f"{name} stands in: {text[:400]}"
