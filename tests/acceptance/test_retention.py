"""What ended long ago goes by itself, out of the journal too; what is parked or runs stays."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.acceptance.conftest import deployed
from tests.support.client import Client
from tests.support.database import Cluster
from tests.support.deployment import Deployment
from tests.support.inspection import dump
from tests.support.polling import eventually
from tests.support.scripts import give, say, script, use
from tests.support.world import World

KEPT_SECONDS = 4.0


@pytest_asyncio.fixture
async def deployment(cluster: Cluster, tmp_path: Path) -> AsyncIterator[Deployment]:
    days = f"{KEPT_SECONDS / 86400:.8f}"
    async with deployed(cluster, tmp_path, PERDURE_RETENTION_DAYS=days) as deployment:
        yield deployment


async def gone(client: Client, run: str) -> None:
    async def probe() -> bool:
        return (await client.http.get(f"/v1/runs/{run}")).status_code == 404

    await eventually(probe, f"{run} was removed", KEPT_SECONDS + 30)


@pytest.mark.case("B76")
async def test_old_runs_go_and_all_that_is_under_way_stays(
    world: World, client: Client, deployment: Deployment
) -> None:
    tool = world.gate("pay:before")
    running = await client.submit(use("pay_idem", ref="running"), say("paid"))
    await tool.reached()
    kept = {"agent": "desk", "input": script(use("refund", ref="b76"), say("refunded"))}
    parked = (await client.post_run(kept, idempotency_key="kept")).json()
    wait = await client.open_wait(parked["id"])
    limits = {"turns": 1}
    stopped = await client.submit(use("refund", ref="more"), say("refunded"), limits=limits)
    await client.allow((await client.open_wait(stopped["id"]))["id"])
    await client.wait_for(stopped["id"], "failed")
    old = await client.submit(give(say("done")), say("done"), session="ses_old")
    ended = await client.succeeded(old["id"])

    assert (await client.resume(stopped["id"], turns=9)).status_code == 202
    await client.succeeded(stopped["id"])
    for run in (stopped["id"], old["id"], *ended["children"]):
        await gone(client, run)
    rows = dump(deployment.database_url)
    for run in (stopped["id"], old["id"], *ended["children"]):
        assert run not in rows

    again = await client.post_run(kept, idempotency_key="kept")
    assert (again.status_code, again.json()["id"]) == (200, parked["id"])
    await client.allow(wait["id"])
    await client.succeeded(parked["id"])
    tool.open()
    await client.succeeded(running["id"])
    assert len(world.payments.rows_for("b76")) == len(world.payments.rows_for("running")) == 1
