"""Two releases, side by side or one after the other: every run goes on, on what there is then."""

from collections.abc import Sequence

import psycopg
import pytest
import pytest_asyncio

from tests.support.client import Client, Json
from tests.support.deployment import Deployment
from tests.support.polling import eventually
from tests.support.scripts import Step, say, use
from tests.support.world import World

SERVICE = {"PERDURE_AGENTS": "tests.support.deploys"}

OTHERS = 9


@pytest_asyncio.fixture
async def deployment(shared_deployment: Deployment) -> Deployment:
    """One service for all tests; each finds one worker of the first release."""
    await redeploy(shared_deployment, "v1")
    return shared_deployment


async def redeploy(deployment: Deployment, release: str) -> None:
    """Its workers are killed; one of this release takes their place."""
    for worker in list(deployment.workers):
        deployment.kill9(worker)
    await deployment.start_worker(DEPLOY=release)


async def submit(client: Client, *steps: Step, agent: str = "shop", mark: str = "") -> str:
    run = await client.submit(*steps, agent=agent, preface=mark)
    return str(run["id"])


def systems(world: World, mark: str) -> list[str]:
    """What the model was told to be, in each request of the run."""
    return [request.body["system"][0]["text"] for request in world.model.about(mark)]


@pytest.mark.case("A47", "B49")
async def test_a_run_moves_to_the_new_release_at_a_turns_border_and_keeps_its_version(
    world: World, client: Client, deployment: Deployment
) -> None:
    gate = world.gate("llm:1")
    steps = [use("count", name="moving"), use("doc_read", name="d"), say("done")]
    run = await submit(client, *steps, mark="<moving>")
    await gate.reached()
    before = await client.run(run)
    old = deployment.worker
    await deployment.start_worker(DEPLOY="v2")
    leaving = deployment.terminate(old)
    gate.open()
    assert await leaving == 0
    after = await client.succeeded(run)
    new = await submit(client, say("done"), mark="<new>")
    await client.succeeded(new)

    assert after["agent_version"] == before["agent_version"]
    assert (await client.run(new))["agent_version"] != before["agent_version"]
    assert systems(world, "<moving>") == ["Release one."] * 3
    assert systems(world, "<new>") == ["Release two."]
    turns = await client.turns(run)
    assert len({turn["prompt_hash"] for turn in turns}) == 1
    assert len({turn["worker"] for turn in turns}) == 2
    assert (after["attempt"], await client.strandings(run)) == (1, ["drain"])
    assert world.effects.count("moving") == 1


@pytest.mark.case("A49")
async def test_the_stricter_of_two_policies_holds_and_a_tool_that_is_gone_is_told_of(
    world: World, client: Client, deployment: Deployment
) -> None:
    paying = {name: use(name, ref=name) for name in ("loosened", "tightened", "gone")}
    gate, looking = world.gate("pay:after", span=len(paying)), world.gate("seen:after")
    runs = {
        name: await submit(client, step, say("told"), mark=f"<{name}>")
        for name, step in paying.items()
    }
    await gate.reached(holding=len(paying))
    runs["looked_up"] = await submit(client, use("looked_up", name="seen"), say("told"))
    await looking.reached()
    steps = [use("gone_asked", ref="asked"), use("gone", ref="again"), say("told")]
    runs["asked"] = await submit(client, *steps, mark="<asked>")
    wait = await client.open_wait(runs["asked"])
    await redeploy(deployment, "v2")
    await client.allow(wait["id"])
    for run in runs.values():
        await client.succeeded(run)

    found = {name: await client.calls(run) for name, run in runs.items()}
    states = {name: [(c["state"], c["attempts"]) for c in calls] for name, calls in found.items()}
    assert states == {
        "loosened": [("outcome_unknown", 1)],
        "tightened": [("outcome_unknown", 1)],
        "gone": [("outcome_unknown", 1)],
        "looked_up": [("succeeded", 1)],
        "asked": [("failed", 0), ("failed", 0)],
    }
    for name in paying:
        assert len(world.payments.calls_for(name)) == 1
        assert "unknown" in str(world.model.about(f"<{name}>")[-1].last_results)
        assert world.model.steps(f"<{name}>") == [0, 1]
    assert world.effects.count("seen") == 2
    assert world.payments.calls_for("asked") + world.payments.calls_for("again") == []
    assert world.model.steps("<asked>") == [0, 1, 2]
    for request in world.model.about("<asked>")[1:]:
        assert "There is no tool" in str(request.last_results)


@pytest.mark.parametrize(("at", "state"), [("before", "failed"), ("after", "succeeded")])
async def test_a_call_whose_arguments_fit_no_more_is_looked_for_and_not_made_again(
    world: World, client: Client, deployment: Deployment, at: str, state: str
) -> None:
    gate = world.gate(f"pay:{at}")
    run = await submit(client, use("reshaped", ref=f"reshaped-{at}"), say("told"))
    await gate.reached()
    await redeploy(deployment, "v2")
    await client.succeeded(run)
    call = await client.call(run)
    assert (call["state"], call["attempts"]) == (state, 1)
    assert len(world.payments.calls_for(f"reshaped-{at}")) == 1


@pytest.mark.case("B42")
async def test_a_run_of_an_agent_that_was_renamed_waits_for_a_worker_that_has_it(
    world: World, client: Client, deployment: Deployment
) -> None:
    run = await submit(client, use("refund", ref="old name"), say("done"), agent="clerk")
    wait = await client.open_wait(run)
    await redeploy(deployment, "v2")
    await client.allow(wait["id"])
    others = [await submit(client, say("done")) for _ in range(OTHERS)]
    for other in others:
        await client.succeeded(other)

    async def stalled() -> Json | None:
        found = await client.run(run)
        return found if "no such agent here" in await client.strandings(run) else None

    found = await eventually(stalled, "its leg has come back")
    assert found["stalled"] == "no worker has agent clerk"
    assert found["status"] == "queued"
    await redeploy(deployment, "v1")
    await client.succeeded(run)
    assert len(world.payments.calls_for("old name")) == 1
    assert set(await client.strandings(run)) == {"no such agent here"}


async def caught_in_second_tool(
    world: World, client: Client, marks: Sequence[str]
) -> dict[str, str]:
    """Runs that have counted once, and are paying."""
    gate = world.gate("pay:after", span=len(marks))
    runs = {}
    for mark in marks:
        steps = [use("count", name=mark), use("pay_idem", ref=mark), say("done")]
        runs[mark] = await submit(client, *steps, mark=f"<{mark}>")
    await gate.reached(holding=len(marks))
    return runs


async def assert_nothing_repeated(world: World, client: Client, mark: str, run: str) -> None:
    await client.succeeded(run, within=40)
    assert world.effects.count(mark) == 1
    assert (len(world.payments.calls_for(mark)), len(world.payments.rows_for(mark))) == (2, 1)
    assert world.model.steps(f"<{mark}>") == [0, 1, 2]
    assert (await client.event_types(run)).count("run.succeeded") == 1


@pytest.mark.case("A47")
async def test_a_leg_that_todays_loop_cannot_replay_goes_on_from_the_tables(
    world: World, client: Client, deployment: Deployment
) -> None:
    (run,) = (await caught_in_second_tool(world, client, ["looping"])).values()
    await redeploy(deployment, "v3")
    await assert_nothing_repeated(world, client, "looping", run)
    assert len(await client.strandings(run)) == 1


DAMAGES = {
    "renamed": """update dbos.operation_outputs set function_name = 'perdure.other'
        where workflow_uuid = %s and function_name = 'perdure.tool'""",
    "removed": """delete from dbos.operation_outputs
        where workflow_uuid = %s and function_name = 'perdure.model'""",
    "garbled": """update dbos.operation_outputs set output = 'no JSON'
        where workflow_uuid = %s and function_name = 'perdure.tool'""",
    "of another": """update dbos.operation_outputs
        set output = replace(output, '"turn":1', '"turn":7')
        where workflow_uuid = %s and function_name = 'perdure.tool'""",
    "lost": "update dbos.workflow_input set inputs = 'no JSON' where workflow_uuid = %s",
}


async def test_a_leg_whose_journal_is_damaged_goes_on_from_the_tables(
    world: World, client: Client, deployment: Deployment
) -> None:
    runs = await caught_in_second_tool(world, client, list(DAMAGES))
    deployment.kill9()
    with psycopg.connect(deployment.database_url) as connection:
        for mark, damage in DAMAGES.items():
            assert connection.execute(damage.encode(), [f"{runs[mark]}:1"]).rowcount > 0
    await deployment.start_worker()
    for mark, run in runs.items():
        await assert_nothing_repeated(world, client, mark, run)
