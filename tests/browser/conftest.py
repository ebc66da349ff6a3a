"""One service and one browser for each module; a page of its own for each test."""

import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, async_playwright

from tests.acceptance.conftest import deployed
from tests.browser.looking import Looking
from tests.conftest import DEPLOYMENTS
from tests.support.audit import breaches
from tests.support.client import Client
from tests.support.database import Cluster
from tests.support.deployment import Deployment
from tests.support.world import World

CHROMIUM = "/usr/bin/chromium"
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--disable-quic",
    # Names that lead to this machine, as an attacker's would.
    "--host-resolver-rules=MAP evil.example 127.0.0.1, MAP perdure.example 127.0.0.1",
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where there is no browser, these say so; the gate has one, and fails without."""
    if shutil.which(CHROMIUM) or os.environ.get("CI") == "true":
        return
    reason = f"needs {CHROMIUM}: apt-get install chromium"
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_deployment(
    cluster: Cluster, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> AsyncIterator[Deployment]:
    """The module may say by `ENV` how its service is set."""
    env: dict[str, str] = getattr(request.module, "ENV", {})
    async with deployed(cluster, tmp_path_factory.mktemp("logs"), 1, **env) as deployment:
        yield deployment


@pytest.fixture
def deployment(shared_deployment: Deployment) -> Deployment:
    return shared_deployment


@pytest.fixture
def world(deployment: Deployment) -> World:
    return deployment.world


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        await browser.close()


@pytest_asyncio.fixture(loop_scope="module")
async def client(deployment: Deployment, request: pytest.FixtureRequest) -> AsyncIterator[Client]:
    """Speaks to the service; after the test the database must hold no broken invariant."""
    request.node.stash.setdefault(DEPLOYMENTS, []).append(deployment)
    await deployment.mend()
    async with Client(deployment.url) as client:
        if key := deployment.env.get("PERDURE_API_KEY"):
            client.http.headers["x-api-key"] = key
        yield client
    deployment.world.gates.open_all()
    assert await breaches(deployment.database_url) == []


@pytest_asyncio.fixture(loop_scope="module")
async def looking(browser: Browser, deployment: Deployment) -> AsyncIterator[Looking]:
    """After the test, the browser must not have complained of anything."""
    looking = Looking(browser, deployment.url)
    yield looking
    await looking.close()
    assert looking.unexpected() == []
