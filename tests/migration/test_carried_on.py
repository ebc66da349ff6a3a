"""What an earlier release left parked, in the model and in tools goes on under this one."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import psycopg
import pytest
import pytest_asyncio

from app.llm.scripted import Scripted
from tests.migration.test_upgrade import FIXTURES
from tests.support.audit import breaches
from tests.support.client import Client
from tests.support.database import NOTES, Cluster, migrate
from tests.support.deployment import Deployment
from tests.support.inspection import notes
from tests.support.payments import LedgerRow
from tests.support.world import World

# What this release has to ask of the model: no step that was answered before.
ASKED = {
    "ended": [],
    "parked": [2],
    "model": [1],
    "read_only": [2],
    "idempotent": [2],
    "at_most_once": [2],
    "reconciled": [2],
    "transactional": [2],
}
# The state and attempts of the call that was under way; payments asked for since.
CALLED = {
    "parked": ("succeeded", 1, 1),
    "read_only": ("succeeded", 1, 0),
    "idempotent": ("succeeded", 2, 1),
    "at_most_once": ("outcome_unknown", 1, 0),
    "reconciled": ("succeeded", 1, 0),
    "transactional": ("succeeded", 1, 0),
}
PAID = ("ended", "idempotent", "at_most_once", "reconciled", "parked")


@pytest_asyncio.fixture(params=["0003", "0005"])
async def deployment(
    cluster: Cluster, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[Deployment]:
    """Today's service over a database of an earlier release; made by `tests.migration.dump`."""
    url = cluster.create_empty()
    with psycopg.connect(url) as connection:
        connection.execute("set check_function_bodies = off")
        connection.execute((FIXTURES / f"{request.param}.sql").read_bytes())
        connection.execute(NOTES)
    migrate(url)
    world = World(Scripted())
    world.start()
    deployment = Deployment(url, world, tmp_path, {"PERDURE_LEASE_SECONDS": "3"})
    try:
        await deployment.start()
        yield deployment
    finally:
        deployment.kill_all()
        world.stop()
        cluster.drop(url)


async def runs_by_name(client: Client) -> dict[str, str]:
    listed = (await client.http.get("/v1/runs?limit=200")).json()["data"]
    return {run["input"].partition(">")[0].removeprefix("<"): run["id"] for run in listed}


@pytest.mark.case("B52")
async def test_a_database_of_an_earlier_release_is_carried_on_without_repeating_anything(
    deployment: Deployment,
) -> None:
    world = deployment.world
    async with Client(deployment.url) as client:
        runs = await runs_by_name(client)
        assert set(runs) == set(ASKED)
        for name in PAID[:4]:
            key = {"ended": f"{runs[name]}/1/0", "idempotent": f"{runs[name]}/2/0"}.get(name)
            world.payments.ledger.append(LedgerRow(name, 100, key))
        ended = await client.run(runs["ended"])
        await client.allow((await client.open_wait(runs["parked"]))["id"])
        await asyncio.gather(*(client.succeeded(run, within=40) for run in runs.values()))

        assert {name: world.model.steps(f"<{name}>") for name in ASKED} == ASKED
        assert [world.effects.count(name) for name in ASKED] == [0] * len(ASKED)
        for name, expected in CALLED.items():
            call = (await client.calls(runs[name]))[-1]
            asked = len(world.payments.calls_for(name))
            assert (name, call["state"], call["attempts"], asked) == (name, *expected)
        assert [len(world.payments.rows_for(name)) for name in PAID] == [1] * len(PAID)
        assert notes(deployment.database_url, runs["transactional"]) == ["noted"]
        assert len(world.documents.reads) == 1
        assert await client.run(runs["ended"]) == ended
        assert (await client.run(runs["model"]))["usage"]["repaid_model_calls"] == 1
        for run in runs.values():
            assert (await client.event_types(run)).count("run.succeeded") == 1
            assert await client.strandings(run) == []
    assert await breaches(deployment.database_url) == []
