"""The janitor is stopped in the middle of a takeover; another one ends it, and nothing doubles."""

import asyncio

import pytest

from tests.support.client import Client
from tests.support.deployment import Deployment
from tests.support.inspection import is_given_up, janitor
from tests.support.polling import eventually, in_time
from tests.support.sabotage import awaited_row, held_row
from tests.support.sampling import sampled
from tests.support.scripts import say, use
from tests.support.world import World

pytestmark = pytest.mark.mended

SERVICE = {"PERDURE_LEASE_SECONDS": "3"}
# What the janitor waits for: our row before it takes a leg over, DBOS's before that is resumed.
WINDOWS = {
    "marked dead": ("perdure.runs", "id", ""),
    "taken over": ("dbos.workflow_status", "workflow_uuid", ":1"),
}
# What it takes over when it is stopped so, and how often that is sent in all.
PAYING = {"killed": ("pay_idem", 2), "frozen": ("pay_once_r", 1)}


async def elected(deployment: Deployment, not_again: str = "") -> str:
    async def probe() -> str | None:
        found = await asyncio.to_thread(janitor, deployment.database_url)
        return found if found != not_again else None

    return await eventually(probe, f"a janitor was elected other than {not_again!r}", in_time(20))


@pytest.mark.parametrize(("window", "how"), sampled(list(WINDOWS), list(PAYING)))
async def test_a_takeover_whose_janitor_stops_is_ended_by_another(
    world: World, client: Client, deployment: Deployment, window: str, how: str
) -> None:
    tool, sent = PAYING[how]
    ref = f"{window} {how}"
    gate = world.gate("pay:after")
    run = (await client.submit(use(tool, ref=ref), say("paid")))["id"]
    await gate.reached()
    victim = await elected(deployment)
    for _ in range(2):
        await deployment.start_worker()
    table, column, suffix = WINDOWS[window]
    with held_row(deployment.database_url, table, column, run + suffix) as row:
        deployment.kill9(deployment.worker_named(victim))
        await awaited_row(deployment.database_url)
        assert is_given_up(deployment.database_url, victim)
        first = await elected(deployment)
        process = deployment.worker_named(first)
        if how == "killed":
            deployment.kill9(process)
        else:
            process.freeze()
        await elected(deployment, not_again=first)
        row.rollback()
    await client.succeeded(run, within=in_time(20))
    events = await client.events(run)
    if how == "frozen":
        assert await deployment.thaw(process) == 1

    assert await client.events(run) == events
    taken = [each["data"] for each in events if each["type"] == "run.taken_over"]
    assert [each["from_worker"] for each in taken] == [victim]
    # A loss that was counted twice would have taken the run out of the workers.
    assert await client.strandings(run) == []
    assert (await client.call(run))["state"] == "succeeded"
    assert (len(world.payments.calls_for(ref)), len(world.payments.rows_for(ref))) == (sent, 1)
