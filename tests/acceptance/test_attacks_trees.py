"""What two clients, or a dead letter, could do to a tree of runs."""

import asyncio

import psycopg

from tests.support.client import Client
from tests.support.deployment import Deployment
from tests.support.polling import eventually
from tests.support.sabotage import ROW_WAITERS
from tests.support.scripts import give, say, script, use
from tests.support.world import World

CARRY_ON = "select perdure.carry_on(id, leg, 'gone') from perdure.runs where id = %s"


async def test_a_supersede_and_a_cancel_of_one_tree_wait_for_each_other(
    client: Client, deployment: Deployment
) -> None:
    """The name of the root's session sorts after those of all others."""
    tree = give(use("refund", ref="tree"), say("refunded"))
    run = await client.submit(tree, say("done"), session="zz")
    await client.descendants_waits(run["id"], "approval")
    child = await client.child(run["id"])
    body = {"agent": "desk", "input": script(say("x")), "session": "zz", "on_busy": "supersede"}
    url = deployment.database_url
    with psycopg.connect(url) as holder, psycopg.connect(url, autocommit=True) as looking:

        async def waiting(count: int) -> None:
            async def probe() -> bool:
                return len(looking.execute(ROW_WAITERS).fetchall()) >= count

            await eventually(probe, f"{count} wait for a row")

        holder.execute("select from perdure.sessions where id = %s for update", [child["session"]])
        cancel = asyncio.create_task(client.cancel(run["id"]))
        await waiting(1)
        supersede = asyncio.create_task(client.post_run(body))
        await waiting(2)
        holder.rollback()
    answers = [await cancel, await supersede]
    assert [answer.status_code for answer in answers] == [202, 202]
    await client.succeeded(answers[1].json()["id"])


async def test_no_child_is_resumed_below_a_run_that_was_cancelled(
    world: World, client: Client, deployment: Deployment
) -> None:
    gate = world.gate("llm:0", nth=2)
    run = await client.submit(give(use("count", name="zombie"), say("x")), say("x"))
    child = await client.child(run["id"])
    await gate.reached()
    await client.wait_for(run["id"], "waiting")
    deployment.kill9()
    with psycopg.connect(deployment.database_url, autocommit=True) as connection:
        for name in (run["id"], child["id"]):
            connection.execute("update perdure.runs set breaches = 2 where id = %s", [name])
            connection.execute(CARRY_ON, [name])
    assert [each["status"] for each in await client.tree(run["id"])] == ["dead_letter"] * 2
    assert (await client.resume(run["id"])).status_code == 202
    assert (await client.cancel(run["id"])).json()["status"] == "cancelled"
    refused = await client.resume(child["id"])
    assert (refused.status_code, refused.json()["type"]) == (409, "/problems/run-ended")
    gate.open()
    await deployment.start_worker()
    await client.succeeded((await client.submit(say("the worker works")))["id"])
    assert world.effects.count("zombie") == 0
