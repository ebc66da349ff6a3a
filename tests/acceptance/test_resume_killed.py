"""kill -9 around a resume, and runs that nothing but a hand can put back on their way."""

import asyncio

import httpx
import pytest

from tests.support.client import Client
from tests.support.deployment import Deployment
from tests.support.sabotage import held_commit, refused_writes
from tests.support.scripts import give, say, together, use
from tests.support.world import World

pytestmark = pytest.mark.mended


async def stopped(client: Client, mark: str) -> str:
    run = await client.submit(
        use("count", name=f"{mark}-a"),
        use("pay_once", ref=f"{mark}-b"),
        say("done"),
        limits={"turns": 1},
        preface=f"<{mark}> ",
    )
    await client.wait_for(run["id"], "failed")
    return str(run["id"])


async def assert_nothing_twice(world: World, client: Client, run: str, mark: str) -> None:
    await client.succeeded(run)
    assert world.effects.count(f"{mark}-a") == 1
    assert len(world.payments.calls_for(f"{mark}-b")) == 1
    assert set(world.model.steps(f"<{mark}> ")) == {0, 1, 2}
    assert world.model.steps(f"<{mark}> ").count(0) == 1
    assert await client.strandings(run) == []


@pytest.mark.parametrize("victim", ["worker", "everything"])
async def test_kill_right_after_a_resume_was_accepted_carries_it_out(
    world: World, client: Client, deployment: Deployment, victim: str
) -> None:
    run = await stopped(client, victim)
    gate = world.gate("llm:1")
    assert (await client.resume(run, turns=5)).status_code == 202
    if victim == "worker":
        await deployment.crash()
    else:
        await deployment.restart()
    gate.open()
    await assert_nothing_twice(world, client, run, victim)
    reopened = [e for e in await client.events(run) if e["data"].get("reopened")]
    assert len(reopened) == 1


@pytest.mark.parametrize("end", ["rolled_back", "committed"])
async def test_kill_of_the_api_in_the_commit_of_a_resume_keeps_it_whole_or_not_at_all(
    world: World, client: Client, deployment: Deployment, end: str
) -> None:
    run = await stopped(client, end)
    with held_commit(deployment.database_url, "run.resumed") as commit:
        answer = asyncio.create_task(client.resume(run, turns=5))
        await commit.reached()
        deployment.kill9_api()
        commit.end(end)
        with pytest.raises(httpx.TransportError):
            await answer
    await deployment.restart_api()
    if end == "rolled_back":
        assert (await client.run(run))["status"] == "failed"
        assert (await client.resume(run, turns=5)).status_code == 202
    await assert_nothing_twice(world, client, run, end)


@pytest.mark.timeout(300)
async def test_a_dead_letter_goes_on_with_what_it_had_and_the_child_that_lives(
    world: World, client: Client, deployment: Deployment
) -> None:
    broken = "new.tool = 'pay_once' and new.state = 'started'"
    with refused_writes(deployment.database_url, broken, "check_violation"):
        run = await client.submit(
            use("count", name="dead"),
            together(
                give(use("refund", ref="dead-child"), say("child done")),
                use("pay_once", ref="dead"),
                use("count", name="beside"),
            ),
            say("done"),
            preface="<dead> ",
        )
        dead = await client.wait_for(run["id"], "dead_letter", within=90)
    assert (dead["reason"], dead["finished_at"] is not None) == ("internal", True)
    assert world.payments.calls_for("dead") == []
    child = await client.child(run["id"])
    assert child["status"] == "waiting"

    assert (await client.resume(run["id"])).status_code == 202
    (wait,) = await client.descendants_waits(run["id"], "approval")
    await client.allow(wait["id"])
    ended = await client.succeeded(run["id"])
    assert ended["children"] == [child["id"]]
    results = world.model.about("<dead> ")[-1].last_results
    assert ["child done" in str(results[0]), "paid" in str(results[1])] == [True, True]
    assert [world.effects.count(name) for name in ("dead", "beside")] == [1, 1]
    assert [len(world.payments.calls_for(ref)) for ref in ("dead", "dead-child")] == [1, 1]
    assert world.model.steps("<dead> ") == [0, 1, 2]
    types = await client.event_types(run["id"])
    assert (types.count("run.dead_letter"), types.count("run.succeeded")) == (1, 1)
