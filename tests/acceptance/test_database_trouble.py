"""A database that refuses or delays writes: no intent, no effect."""

import pytest

from tests.support.client import Client
from tests.support.deployment import Deployment
from tests.support.sabotage import locked_table, refused_writes
from tests.support.scripts import say, use
from tests.support.world import World

INTENT = "new.state = 'started'"


@pytest.mark.case("A34")
@pytest.mark.parametrize("refused", ["true", INTENT], ids=["every_write", "intent"])
@pytest.mark.parametrize("tool", ["pay_idem", "pay_once"])
async def test_refused_writes_stop_the_tool_from_being_called(
    world: World, client: Client, deployment: Deployment, tool: str, refused: str
) -> None:
    gate = world.gate("llm:0")
    run = await client.submit(use(tool, ref="a34"), say("paid"))
    await gate.reached()
    with refused_writes(deployment.database_url, refused) as refusal:
        gate.open()
        await refusal.happened()
        assert world.payments.calls == []
    await client.succeeded(run["id"], within=60)
    assert len(world.payments.calls) == 1
    assert (await client.call(run["id"]))["state"] == "succeeded"


@pytest.mark.case("A34")
async def test_a_ledger_that_does_not_answer_stops_the_tool_from_being_called(
    world: World, client: Client, deployment: Deployment
) -> None:
    gate = world.gate("llm:0")
    run = await client.submit(use("pay_once", ref="a34"), say("paid"))
    await gate.reached()
    with locked_table(deployment.database_url, "perdure.calls") as ledger:
        gate.open()
        await ledger.awaited()
        assert world.payments.calls == []
    await client.succeeded(run["id"], within=60)
    assert len(world.payments.calls) == 1


@pytest.mark.parametrize("table", ["dbos.dbos_migrations", "dbos.queues"])
async def test_a_worker_that_is_cut_off_as_it_starts_starts_all_the_same(
    client: Client, deployment: Deployment, table: str
) -> None:
    deployment.kill9()
    run = await client.submit(say("done"))
    with locked_table(deployment.database_url, table) as locked:
        worker = await deployment.start_worker()
        await locked.awaited()
        locked.cut_off()
    await client.succeeded(run["id"])
    assert worker.exit_code is None
