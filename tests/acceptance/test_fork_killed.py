"""kill -9 around a fork, and forks of runs that a kill has left in doubt."""

import asyncio

import httpx
import pytest

from tests.support.client import Client
from tests.support.deployment import Deployment
from tests.support.sabotage import held_commit
from tests.support.scripts import say, script, use
from tests.support.world import World

pytestmark = pytest.mark.mended


async def done(client: Client, mark: str) -> str:
    run = await client.submit(
        use("pay_once", ref=mark), use("count", name=mark), say("done"), preface=f"<{mark}> "
    )
    await client.succeeded(run["id"])
    return str(run["id"])


@pytest.mark.parametrize("victim", ["worker", "everything"])
async def test_kill_right_after_a_fork_was_accepted_carries_it_out(
    world: World, client: Client, deployment: Deployment, victim: str
) -> None:
    run = await done(client, victim)
    gate = world.gate("llm:1")
    answer = await client.fork(run, 1, input=script(say("another way")))
    assert answer.status_code == 202
    if victim == "worker":
        await deployment.crash()
    else:
        await deployment.restart()
    gate.open()
    fork = await client.succeeded(answer.json()["id"])
    assert (fork["output"]["text"], fork["turns"]) == ("another way", 2)
    assert await client.strandings(fork["id"]) == []
    assert (len(world.payments.calls_for(victim)), world.effects.count(victim)) == (1, 1)


@pytest.mark.parametrize("end", ["rolled_back", "committed"])
async def test_kill_of_the_api_in_the_commit_of_a_fork_makes_one_or_none(
    world: World, client: Client, deployment: Deployment, end: str
) -> None:
    run = await done(client, end)
    path, body, key = f"/v1/runs/{run}/fork", {"turn": 1}, {"idempotency-key": end}
    with held_commit(deployment.database_url, "run.queued") as commit:
        answer = asyncio.create_task(client.http.post(path, json=body, headers=key))
        await commit.reached()
        deployment.kill9_api()
        commit.end(end)
        with pytest.raises(httpx.TransportError):
            await answer
    await deployment.restart_api()
    again = await client.http.post(path, json=body, headers=key)
    assert again.status_code == (202 if end == "rolled_back" else 200)
    fork = await client.succeeded(again.json()["id"])
    assert [effect["tool"] for effect in fork["effects"]] == ["count"]
    assert await client.strandings(fork["id"]) == []
    assert (len(world.payments.calls_for(end)), world.effects.count(end)) == (1, 2)


async def test_a_fork_guards_the_tool_that_its_source_left_in_doubt(
    world: World, client: Client, deployment: Deployment
) -> None:
    gate = world.gate("pay:after")
    run = await client.submit(use("pay_once", ref="doubt"), say("noted"), preface="<doubt> ")
    await gate.reached()
    await deployment.crash()
    await client.succeeded(run["id"])
    again = script(use("pay_once", ref="doubt-again"), say("done"))
    fork = (await client.fork(run["id"], 1, input=again)).json()
    wait = await client.open_wait(fork["id"])
    assert "unknown" in wait["question"]
    (told,) = world.model.about("doubt-again")[-1].last_results
    assert told["is_error"] is True
    assert "unknown" in str(told["content"])
    assert fork["effects"] == []
    await client.deny(wait["id"])
    await client.succeeded(fork["id"])

    unknown = (await client.calls(fork["id"]))[0]
    assert unknown["state"] == "outcome_unknown"
    assert (await client.settle(unknown["id"], {"outcome": "did_not_happen"})).status_code == 200
    free = await client.submit(use("pay_once", ref="free"), say("x"), session=fork["session"])
    await client.succeeded(free["id"])
    assert [len(world.payments.calls_for(ref)) for ref in ("doubt", "doubt-again", "free")] == [
        1,
        0,
        1,
    ]


async def test_a_fork_of_an_interrupted_run_repeats_nothing_while_that_goes_on(
    world: World, client: Client, deployment: Deployment
) -> None:
    gate = world.gate("broken-off:after")
    run = await client.submit(
        use("pay_once", ref="whole"), use("count", name="broken-off"), say("x"), preface="<off> "
    )
    await gate.reached()
    deployment.kill9()
    fork = (await client.fork(run["id"], 1, input=script(say("another way")))).json()
    assert (await client.fork(run["id"], 2)).status_code == 422
    await deployment.start_worker()
    assert (await client.succeeded(fork["id"]))["output"]["text"] == "another way"
    await client.succeeded(run["id"])
    assert len(world.payments.calls_for("whole")) == 1
    assert len({effect["key"] for effect in world.effects.details("broken-off")}) == 1
