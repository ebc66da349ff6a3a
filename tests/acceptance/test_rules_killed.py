"""kill -9 between a rule and the calls it allows, and rules that meet an outcome in doubt."""

import asyncio

import httpx
import pytest

from tests.support.client import Client
from tests.support.deployment import Deployment
from tests.support.sabotage import held_commit
from tests.support.scripts import say, use
from tests.support.world import World

pytestmark = pytest.mark.mended


async def asking(client: Client, mark: str, tool: str = "refund") -> tuple[str, str]:
    """A run of two like calls, parked on the first one's approval; and that wait."""
    steps = (use(tool, ref=mark), use(tool, ref=mark))
    run = await client.submit(*steps, say("done"), session=mark, preface=f"<{mark}> ")
    return str(run["id"]), str((await client.open_wait(run["id"]))["id"])


async def assert_asked_once(world: World, client: Client, run: str, mark: str) -> None:
    await client.succeeded(run)
    assert await client.strandings(run) == []
    keys = [call.key for call in world.payments.calls_for(mark)]
    assert sorted(set(keys), key=str) == [f"{run}/1/0", f"{run}/2/0"]
    assert len(world.payments.rows_for(mark)) == 2
    waits = sorted(await client.waits(run), key=lambda wait: wait["call"])
    assert [wait["resolved_via"] for wait in waits] == ["http", "rule"]
    assert len([rule for rule in await client.rules() if rule["run"] == run]) == 1


@pytest.mark.parametrize("victim", ["worker", "everything"])
async def test_kill_between_a_rule_and_the_next_call_asks_nobody_twice(
    world: World, client: Client, deployment: Deployment, victim: str
) -> None:
    run, wait = await asking(client, victim)
    await client.allow_and_rule(wait, scope="session", when={"ref": {"equals": victim}})
    if victim == "worker":
        await deployment.crash()
    else:
        await deployment.restart()
    await assert_asked_once(world, client, run, victim)


@pytest.mark.parametrize("end", ["rolled_back", "committed"])
async def test_kill_of_the_api_in_the_commit_of_a_rule_makes_it_with_its_approval_or_not_at_all(
    world: World, client: Client, deployment: Deployment, end: str
) -> None:
    mark = f"api-{end}"
    run, wait = await asking(client, mark)
    said = {"decision": "allow", "rule": {"scope": "run", "when": {}}}
    with held_commit(deployment.database_url, "wait.resolved") as commit:
        answer = asyncio.create_task(client.resolve(wait, said))
        await commit.reached()
        deployment.kill9_api()
        commit.end(end)
        with pytest.raises(httpx.TransportError):
            await answer
    await deployment.restart_api()
    made = [rule for rule in await client.rules() if rule["run"] == run]
    assert len(made) == (end == "committed")
    assert (await client.resolve(wait, said)).status_code == 200
    await assert_asked_once(world, client, run, mark)


@pytest.mark.parametrize("end", ["rolled_back", "committed"])
async def test_kill_in_the_commit_in_which_a_rule_answers_answers_once(
    world: World, client: Client, deployment: Deployment, end: str
) -> None:
    mark = f"answer-{end}"
    model = world.gate("llm:1")
    run, wait = await asking(client, mark)
    await client.allow_and_rule(wait, scope="run", when={})
    await model.reached()
    with held_commit(deployment.database_url, "wait.resolved") as commit:
        model.open()
        await commit.reached()
        deployment.kill9()
        commit.end(end)
    await deployment.start_worker()
    await assert_asked_once(world, client, run, mark)
    assert world.model.steps(f"<{mark}> ") == [0, 1, 2]


async def test_a_rule_answers_no_question_while_an_outcome_is_in_doubt(
    world: World, client: Client, deployment: Deployment
) -> None:
    refs = [f"doubt-{n}" for n in range(4)]
    gate = world.gate("pay:after", nth=2)
    steps = [use("pay_once", ref=ref) for ref in refs]
    run = await client.submit(*steps, say("done"), agent="cautious")
    await client.allow_and_rule((await client.open_wait(run["id"]))["id"], scope="run", when={})
    await gate.reached()
    await deployment.crash()
    asked = await client.open_wait(run["id"])
    assert asked["arguments"]["ref"] == refs[2]
    assert "unknown" in asked["question"]
    unknown = (await client.calls(run["id"]))[1]
    happened = {"outcome": "happened", "result": {"receipt": 7}}
    assert (await client.settle(unknown["id"], happened)).status_code == 200
    await client.allow(asked["id"])
    await client.succeeded(run["id"])
    waits = sorted(await client.waits(run["id"]), key=lambda wait: wait["call"])
    assert [wait["resolved_via"] for wait in waits] == ["http", "rule", "http", "rule"]
    assert [len(world.payments.calls_for(ref)) for ref in refs] == [1, 1, 1, 1]
