"""kill -9 in each window, for the four policies side by side: the rows of docs/guarantees.md."""

from collections.abc import AsyncIterator, Sequence

import pytest
import pytest_asyncio

from app import Agent, ToolContext, tool
from app.tools.policy import Replay
from tests.acceptance.conftest import deployed
from tests.support.client import Client
from tests.support.database import Cluster
from tests.support.deployment import Deployment
from tests.support.environment import AGENTS
from tests.support.inspection import notes
from tests.support.outside import Reply, effect
from tests.support.sabotage import held_commit
from tests.support.scripts import say, together, use
from tests.support.tools import INSERT_NOTE
from tests.support.world import World


@tool(replay="read_only", timeout=60)
async def read_only(ctx: ToolContext, name: str) -> Reply:
    """Look at something."""
    return await effect(name, ctx)


@tool(replay="idempotent", timeout=60)
async def idempotent(ctx: ToolContext, name: str) -> Reply:
    """Do something under a key."""
    return await effect(name, ctx)


@tool(replay="transactional", timeout=60)
async def transactional(ctx: ToolContext, name: str) -> Reply:
    """Write a note in the transaction of the outcome."""
    await ctx.connection.execute(INSERT_NOTE, {"run": ctx.run_id, "text": name})
    return await effect(name, ctx)


@tool(timeout=60)
async def at_most_once(ctx: ToolContext, name: str) -> Reply:
    """Do something that nobody can be asked about."""
    return await effect(name, ctx)


TOOLS = [read_only, idempotent, transactional, at_most_once]
POLICIES: tuple[Replay, ...] = ("read_only", "idempotent", "transactional", "at_most_once")
WITH_INTENT: tuple[Replay, ...] = ("idempotent", "at_most_once")
free = Agent(name="free", model="claude-sonnet-5", tools=TOOLS)
asked = Agent(
    name="asked",
    model="claude-sonnet-5",
    tools=TOOLS,
    approvals=dict.fromkeys(POLICIES, "always"),
)

# In whose commit which runs are stopped.
RECORDS = {
    "run.succeeded": POLICIES,
    "call.succeeded": POLICIES,
    "call.started": WITH_INTENT,  # the others write it together with the outcome
    "model.completed": POLICIES,
}
ONCE = ("succeeded", 1, 1)
AGAIN = ("succeeded", 1, 2)  # only an intent counts an attempt that was cut off
# What the record's loss or commit leads to: the call's state, its attempts, bodies that acted.
LOST = {
    ("call.succeeded", "read_only"): AGAIN,
    ("call.succeeded", "idempotent"): ("succeeded", 2, 2),
    ("call.succeeded", "transactional"): AGAIN,  # the first one was rolled back
    ("call.succeeded", "at_most_once"): ("outcome_unknown", 1, 1),
}
KEPT = {
    ("call.started", "idempotent"): ("succeeded", 2, 1),
    ("call.started", "at_most_once"): ("outcome_unknown", 1, 0),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_deployment(
    cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Deployment]:
    env = {"PERDURE_AGENTS": f"{AGENTS},{__name__}"}
    async with deployed(cluster, tmp_path_factory.mktemp("logs"), 1, **env) as deployment:
        yield deployment


@pytest_asyncio.fixture
async def deployment(shared_deployment: Deployment) -> Deployment:
    """One service for all tests; each finds one worker."""
    await shared_deployment.mend()
    return shared_deployment


async def begun(
    client: Client, mark: str, policies: Sequence[str], agent: str = "free"
) -> dict[str, str]:
    """A run for each policy, by the name that its body tells the world."""
    runs = {}
    for policy in policies:
        name = f"<{mark} {policy}>"
        accepted = await client.submit(
            use(policy, name=name), say("done"), agent=agent, preface=name
        )
        runs[name] = accepted["id"]
    return runs


async def came_to(world: World, client: Client, run: str, name: str) -> tuple[str, int, int]:
    """The state of its call, the attempts, and how often a body acted."""
    call = await client.call(run)
    keys = {seen["key"] for seen in world.effects.details(name)}
    assert keys <= {call["idempotency_key"]}
    return call["state"], call["attempts"], world.effects.count(name)


async def assert_told(client: Client, run: str, taken_over: int) -> None:
    """One ending, and one event for each time that the run lost its worker."""
    await client.succeeded(run)
    types = await client.event_types(run)
    assert (types[-1], types.count("run.succeeded")) == ("run.succeeded", 1)
    assert types.count("run.taken_over") == taken_over
    assert await client.strandings(run) == []


def assert_noted_once(deployment: Deployment, runs: dict[str, str]) -> None:
    for name, run in runs.items():
        if "transactional" in name:
            assert notes(deployment.database_url, run) == [name]


@pytest.mark.case("B10")
@pytest.mark.parametrize("record", RECORDS)
@pytest.mark.parametrize("how", ["rolled_back", "committed"])
async def test_kill_in_the_commit_of_a_record_keeps_the_promise_of_each_policy(
    world: World, client: Client, deployment: Deployment, how: str, record: str
) -> None:
    policies = RECORDS[record]
    with held_commit(deployment.database_url, record) as commit:
        runs = await begun(client, f"{how} {record}", policies)
        await commit.reached(holding=len(policies))
        deployment.kill9()
        commit.end(how)
    await deployment.start_worker()
    ended = (how, record) == ("committed", "run.succeeded")
    asked_again = (how, record) == ("rolled_back", "model.completed")
    expected = LOST if how == "rolled_back" else KEPT
    for policy, (name, run) in zip(policies, runs.items(), strict=True):
        await assert_told(client, run, 0 if ended else 1)
        wanted = expected.get((record, policy), ONCE)
        assert (name, await came_to(world, client, run, name)) == (name, wanted)
        assert world.model.steps(name) == ([0, 0, 1] if asked_again else [0, 1])
    assert_noted_once(deployment, runs)


@pytest.mark.parametrize("window", ["before", "after"])
async def test_kill_around_the_effect_of_each_policy_keeps_its_promise(
    world: World, client: Client, deployment: Deployment, window: str
) -> None:
    names = [f"<{window} {policy}>" for policy in POLICIES]
    gates = [world.gate(f"{name}:{window}") for name in names]
    runs = await begun(client, window, POLICIES)
    for gate in gates:
        await gate.reached()
    await deployment.crash()
    acted = 1 if window == "before" else 2
    wanted = (
        ("succeeded", 1, acted),
        ("succeeded", 2, acted),
        ("succeeded", 1, acted),
        ("outcome_unknown", 1, acted - 1),
    )
    for (name, run), came in zip(runs.items(), wanted, strict=True):
        await assert_told(client, run, 1)
        assert (name, await came_to(world, client, run, name)) == (name, came)
        assert world.model.steps(name) == [0, 1]
        assert (await client.run(run))["usage"]["repaid_model_calls"] == 0
    assert_noted_once(deployment, runs)


async def test_kill_in_the_model_call_after_each_policy_repeats_that_call_alone(
    world: World, client: Client, deployment: Deployment
) -> None:
    gate = world.gate("llm:1", span=len(POLICIES))
    runs = await begun(client, "asking", POLICIES)
    await gate.reached(holding=len(POLICIES))
    await deployment.crash()
    for name, run in runs.items():
        await assert_told(client, run, 1)
        assert (name, await came_to(world, client, run, name)) == (name, ONCE)
        assert world.model.steps(name) == [0, 1, 1]
    assert_noted_once(deployment, runs)


async def test_kill_in_the_recovery_of_each_policy_keeps_its_promise(
    world: World, client: Client, deployment: Deployment
) -> None:
    names = {policy: f"<recovery {policy}>" for policy in POLICIES}
    again = [name for policy, name in names.items() if policy != "at_most_once"]
    first = [world.gate(f"{name}:after") for name in names.values()]
    second = [world.gate(f"{name}:after", nth=2) for name in again]
    run = await client.submit(
        together(*(use(policy, name=name) for policy, name in names.items())),
        say("done"),
        agent="free",
        preface="<recovery>",
    )
    for gates in (first, second):
        for gate in gates:
            await gate.reached()
        await deployment.crash()
    await client.succeeded(run["id"])
    calls = [(c["state"], c["attempts"]) for c in await client.calls(run["id"])]
    assert calls == [
        ("succeeded", 1),
        ("succeeded", 3),
        ("succeeded", 1),
        ("outcome_unknown", 1),
    ]
    assert [world.effects.count(name) for name in names.values()] == [3, 3, 3, 1]
    assert len({seen["key"] for seen in world.effects.details(names["idempotent"])}) == 1
    assert notes(deployment.database_url, run["id"]) == [names["transactional"]]
    assert world.model.steps("<recovery>") == [0, 1]


async def test_kill_at_the_park_and_right_after_the_decision_asks_once_and_runs_once(
    world: World, client: Client, deployment: Deployment
) -> None:
    runs = await begun(client, "asked", POLICIES, agent="asked")
    before = {name: await client.open_wait(run) for name, run in runs.items()}
    await deployment.restart()
    assert {name: await client.open_wait(run) for name, run in runs.items()} == before
    deployment.kill9()
    for wait in before.values():
        await client.allow(wait["id"])
    deployment.kill9_api()
    await deployment.restart_api()
    await deployment.start_worker()
    for name, run in runs.items():
        await assert_told(client, run, 0)
        assert (name, await came_to(world, client, run, name)) == (name, ONCE)
        assert world.model.steps(name) == [0, 1]
        assert len(await client.waits(run)) == 1
    assert_noted_once(deployment, runs)
