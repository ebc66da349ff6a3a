"""kill -9 in the commit of every record that a wait leaves: it is lost whole or kept whole."""

import asyncio

import httpx
import pytest

from app import Agent, ToolContext, tool
from tests.support.client import Client, Json
from tests.support.deployment import Deployment
from tests.support.environment import AGENTS
from tests.support.outside import Reply
from tests.support.sabotage import HeldEvent, held_commit
from tests.support.sampling import sampled
from tests.support.scripts import Step, by_attempt, refuse, say, use
from tests.support.world import World

pytestmark = pytest.mark.mended

SERVICE = {"PERDURE_AGENTS": f"{AGENTS},{__name__}"}

TOOLS = {"idempotent": "refund", "at_most_once": "refund_once"}
POLICIES = list(TOOLS)
ENDS = ["rolled_back", "committed"]
ASKING = ["wait.opened", "run.waiting"]
GOING_ON = ["run.resumed", "call.started", "call.succeeded"]
CLOCKS = ["next_attempt", "back_off"]
ANSWERS: dict[str, Json] = {
    "external": {"result": {"signature": "said-by-hand"}},
    "outcome": {"outcome": "happened", "result": {"receipt": "said-by-hand"}},
}


@tool(external=True)
async def sign(ctx: ToolContext, document: str) -> Reply:
    """Signed by the client, on its own machine."""
    raise AssertionError


clerk = Agent(name="clerk", model="claude-sonnet-5", instructions="File it.", tools=[sign])


async def kill_in_commit(deployment: Deployment, commit: HeldEvent, how: str) -> None:
    await commit.reached()
    deployment.kill9()
    commit.end(how)


async def assert_nobody_had_to_mend_it(client: Client, run: str) -> None:
    assert "run.handed_off" not in await client.event_types(run)


def called_and_booked(world: World, ref: str) -> tuple[int, int]:
    return len(world.payments.calls_for(ref)), len(world.payments.rows_for(ref))


@pytest.mark.parametrize(("record", "how", "policy"), sampled(ASKING, ENDS, POLICIES))
async def test_kill_in_the_commit_of_a_question_asks_it_once(
    world: World, client: Client, deployment: Deployment, record: str, how: str, policy: str
) -> None:
    ref = f"asking {record} {how} {policy}"
    with held_commit(deployment.database_url, record) as commit:
        run = await client.submit(use(TOOLS[policy], ref=ref), say("refunded"))
        await kill_in_commit(deployment, commit, how)
    await deployment.start_worker()
    wait = await client.open_wait(run["id"])
    assert called_and_booked(world, ref) == (0, 0)
    await client.allow(wait["id"])
    await client.succeeded(run["id"])
    assert [asked["id"] for asked in await client.waits(run["id"])] == [wait["id"]]
    assert called_and_booked(world, ref) == (1, 1)
    assert world.model.steps(ref) == [0, 1]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("how", ENDS)
async def test_kill_of_the_api_in_the_commit_of_a_decision_keeps_it_whole_or_not_at_all(
    world: World, client: Client, deployment: Deployment, how: str, policy: str
) -> None:
    ref = f"deciding {how} {policy}"
    run = await client.submit(use(TOOLS[policy], ref=ref), say("refunded"))
    wait = await client.open_wait(run["id"])
    with held_commit(deployment.database_url, "wait.resolved") as commit:
        answer = asyncio.create_task(client.resolve(wait["id"], {"decision": "allow"}))
        await commit.reached()
        deployment.kill9_api()
        commit.end(how)
        with pytest.raises(httpx.TransportError):
            await answer
    await deployment.restart_api()
    if how == "rolled_back":
        assert await client.open_wait(run["id"]) == wait
        assert called_and_booked(world, ref) == (0, 0)
        await client.allow(wait["id"])
    await client.succeeded(run["id"])
    again = await client.allow(wait["id"])
    assert (again["state"], again["resolution"]["decision"]) == ("resolved", "allow")
    assert called_and_booked(world, ref) == (1, 1)
    await assert_nobody_had_to_mend_it(client, run["id"])


@pytest.mark.parametrize(("record", "how", "policy"), sampled(GOING_ON, ENDS, POLICIES[::-1]))
async def test_kill_in_a_commit_of_the_leg_that_a_decision_brought_asks_for_no_other(
    world: World, client: Client, deployment: Deployment, record: str, how: str, policy: str
) -> None:
    ref = f"going on {record} {how} {policy}"
    run = await client.submit(use(TOOLS[policy], ref=ref), say("refunded"))
    wait = await client.open_wait(run["id"])
    with held_commit(deployment.database_url, record) as commit:
        await client.allow(wait["id"])
        await kill_in_commit(deployment, commit, how)
    await deployment.start_worker()
    in_doubt = {("call.started", "committed"): 0, ("call.succeeded", "rolled_back"): 1}
    booked = in_doubt.get((record, how))
    calls = 1
    if booked is not None and policy == "at_most_once":
        await settle(client, run["id"], happened=bool(booked))
    elif booked is not None:
        calls += booked
    await client.succeeded(run["id"])
    assert called_and_booked(world, ref) == (calls, 1)
    approvals = await client.waits(run["id"], kind="approval")
    assert [asked["id"] for asked in approvals] == [wait["id"]]
    assert world.model.steps(ref) == [0, 1]


async def settle(client: Client, run: str, *, happened: bool) -> None:
    """A person says what became of the call, which nobody else can know."""
    asked = await client.open_wait(run, kind="outcome")
    said: Json = (
        {"outcome": "happened", "result": {}} if happened else {"outcome": "did_not_happen"}
    )
    assert (await client.resolve(asked["id"], said)).status_code == 200


@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("kind", ANSWERS)
async def test_kill_of_the_api_in_the_commit_of_an_answer_keeps_it_whole_or_not_at_all(
    world: World, client: Client, deployment: Deployment, kind: str, how: str
) -> None:
    ref = f"answering {kind} {how}"
    run = await asking(world, client, deployment, kind, ref)
    wait = await client.open_wait(run, kind=kind)
    with held_commit(deployment.database_url, "wait.resolved") as commit:
        answer = asyncio.create_task(client.resolve(wait["id"], ANSWERS[kind]))
        await commit.reached()
        deployment.kill9_api()
        commit.end(how)
        with pytest.raises(httpx.TransportError):
            await answer
    await deployment.restart_api()
    if how == "rolled_back":
        assert await client.open_wait(run, kind=kind) == wait
        assert (await client.resolve(wait["id"], ANSWERS[kind])).status_code == 200
    await client.succeeded(run)
    assert (await client.resolve(wait["id"], ANSWERS[kind])).status_code == 200
    assert "said-by-hand" in str(world.model.about(ref)[-1].last_results)
    assert world.model.steps(ref) == [0, 1]
    await assert_nobody_had_to_mend_it(client, run)


async def asking(world: World, client: Client, deployment: Deployment, kind: str, ref: str) -> str:
    """A run that parks on a question of this kind."""
    if kind == "external":
        run = await client.submit(use("sign", document=ref), say("filed"), agent="clerk")
        return str(run["id"])
    gate = world.gate("pay:after")
    run = await client.submit(use("pay_once_ask", ref=ref), say("noted"))
    await gate.reached()
    await deployment.crash()
    return str(run["id"])


@pytest.mark.parametrize(
    ("record", "how", "kind"), sampled(["wait.opened", "wait.resolved"], ENDS, CLOCKS)
)
async def test_kill_in_the_commit_of_a_timer_or_of_its_end_wakes_the_run_all_the_same(
    world: World, client: Client, deployment: Deployment, record: str, how: str, kind: str
) -> None:
    mark = f"<clock {record} {how} {kind}>"
    steps: dict[str, Step] = {
        "next_attempt": use("flaky", failures=world.effects.count("flaky") + 1),
        "back_off": by_attempt(refuse(529, retry_after=0), say("at last")),
    }
    with held_commit(deployment.database_url, record) as commit:
        run = await client.submit(steps[kind], say("done"), preface=mark)
        await kill_in_commit(deployment, commit, how)
    await deployment.start_worker()
    await client.succeeded(run["id"])
    await assert_nobody_had_to_mend_it(client, run["id"])
    fired = (await client.event_types(run["id"])).count("wait.resolved")
    assert fired == len(await client.waits(run["id"], kind="timer", state="resolved"))
    if kind == "next_attempt":
        assert (await client.call(run["id"]))["attempts"] == 2
    else:
        assert world.model.statuses(mark)[-1] == 200
