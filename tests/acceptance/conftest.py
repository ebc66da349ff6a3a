"""A whole service per test (or per module, where nothing is killed), judged from the outside."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio

from app.llm.scripted import Scripted
from tests.conftest import DEPLOYMENTS
from tests.support.audit import breaches
from tests.support.client import Client
from tests.support.database import Cluster
from tests.support.deployment import Deployment
from tests.support.world import World


@asynccontextmanager
async def deployed(
    cluster: Cluster, logs: Path, workers: int = 1, **env: str
) -> AsyncIterator[Deployment]:
    """A started service over a new database and a new world; nothing of it is left afterwards."""
    url = cluster.clone()
    world = World(Scripted())
    world.start()
    deployment = Deployment(url, world, logs, env)
    try:
        await deployment.start(workers)
        yield deployment
    finally:
        deployment.kill_all()
        world.stop()
        cluster.drop(url)


@pytest_asyncio.fixture
async def own_deployment(cluster: Cluster, tmp_path: Path) -> AsyncIterator[Deployment]:
    """A service of the test's own, to be killed as it likes."""
    async with deployed(cluster, tmp_path) as deployment:
        yield deployment


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_deployment(
    cluster: Cluster, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> AsyncIterator[Deployment]:
    """One service for the tests of a module; its `SERVICE`, if it has one, is the environment."""
    env = getattr(request.module, "SERVICE", {})
    async with deployed(cluster, tmp_path_factory.mktemp("logs"), **env) as deployment:
        yield deployment


@pytest_asyncio.fixture
async def mended_deployment(shared_deployment: Deployment) -> Deployment:
    """The module's one service, with one worker, whatever earlier tests have killed or added."""
    await shared_deployment.mend()
    return shared_deployment


@pytest.fixture
def deployment(request: pytest.FixtureRequest) -> Deployment:
    """A service of the test's own, or the module's one for a test marked `calm` or `mended`."""
    marked = {marker.name for marker in request.node.iter_markers()}
    shared = {"calm": "shared_deployment", "mended": "mended_deployment"}
    name = next((shared[marker] for marker in shared if marker in marked), "own_deployment")
    found = request.getfixturevalue(name)
    assert isinstance(found, Deployment)
    return found


@pytest.fixture
def world(deployment: Deployment) -> World:
    return deployment.world


@pytest_asyncio.fixture
async def client(deployment: Deployment, request: pytest.FixtureRequest) -> AsyncIterator[Client]:
    """Speaks to the service; after the test the database must hold no broken invariant."""
    request.node.stash.setdefault(DEPLOYMENTS, []).append(deployment)
    async with Client(deployment.url) as client:
        yield client
    deployment.world.gates.open_all()
    assert await breaches(deployment.database_url) == []
