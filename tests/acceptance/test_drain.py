"""A worker that is told to stop costs its runs nothing; what it cannot end is kept by policy."""

import asyncio
import time
from collections.abc import Iterator

import httpx
import pytest

from app import Agent, DidNotHappen, Happened, ToolContext, tool
from tests.support.client import Client, Json
from tests.support.deployment import Deployment
from tests.support.environment import AGENTS
from tests.support.gates import Gate
from tests.support.inspection import notes
from tests.support.outside import Reply, effect_sync, get
from tests.support.polling import eventually, in_time
from tests.support.processes import Process
from tests.support.receiver import Receiver
from tests.support.scripts import Step, say, use
from tests.support.world import World

pytestmark = pytest.mark.mended

SERVICE = {"PERDURE_AGENTS": f"{AGENTS},{__name__}"}

EACH = 4


async def find_payment(ctx: ToolContext, args: Reply) -> Happened | DidNotHappen:
    found = await get("/pay", ref=args["name"])
    return Happened(found["payment"]) if found["payment"] else DidNotHappen()


@tool(reconcile=find_payment, timeout=60)
def count_once(ctx: ToolContext, name: str) -> Reply:
    """Be counted from a thread, which nobody can stop."""
    return effect_sync(name, ctx)


threaded = Agent(
    name="threaded", model="claude-sonnet-5", instructions="Count.", tools=[count_once]
)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    receiver.start()
    yield receiver
    receiver.stop()


# What each run does, and where it is caught.
CAUGHT: dict[str, tuple[Step, str]] = {
    "read_only": (use("doc_read", name="d"), "doc:after"),
    "idempotent": (use("count", name="counted"), "counted:after"),
    "at_most_once": (use("pay_once", ref="drained"), "pay:after"),
    "transactional": (use("note_tx", text="noted"), "note_tx:after"),
    "model": (say("asked"), "llm:0"),
}


async def caught(
    world: World, client: Client, mark: str, each: int = 1
) -> tuple[dict[str, list[str]], list[Gate]]:
    """Runs in every kind of tool and in the model call, all held there."""
    runs: dict[str, list[str]] = {}
    gates = []
    for kind, (step, point) in CAUGHT.items():
        gates.append(world.gate(point, span=each))
        told = [
            await client.submit(step, say("done"), preface=f"<{mark} {kind} {n}>")
            for n in range(each)
        ]
        await gates[-1].reached(holding=each)
        runs[kind] = [run["id"] for run in told]
    return runs, gates


async def assert_not_disturbed(client: Client, run: str) -> None:
    """It has ended as if nobody had gone, and tells of no cancel, loss or second attempt."""
    ended = await client.succeeded(run)
    assert (ended["attempt"], ended["usage"]["repaid_model_calls"]) == (1, 0)
    types = await client.event_types(run)
    assert not {"run.cancelled", "call.cancelled", "run.taken_over", "run.failed"} & set(types)
    assert [(c["state"], c["attempts"]) for c in await client.calls(run)] in (
        [],
        [("succeeded", 1)],
    )
    assert set(await client.strandings(run)) <= {"drain"}


@pytest.mark.case("B54")
async def test_a_worker_stopped_under_load_hands_over_everything(
    world: World, client: Client, deployment: Deployment
) -> None:
    runs, gates = await caught(world, client, "load", EACH)
    every = [run for kind in runs.values() for run in kind]
    async with asyncio.TaskGroup() as group:
        held = [group.create_task(held_request(deployment, run)) for run in every[:3]]
        leaving = group.create_task(deployment.terminate(deployment.worker))
        await deployment.start_worker()
        assert not leaving.done()
        for gate in gates:
            gate.open()
    assert leaving.result() == 0
    for run in every:
        await assert_not_disturbed(client, run)
    handed_over = [run for run in every if await client.strandings(run) == ["drain"]]
    assert len(handed_over) == len(CAUGHT) * EACH - len(runs["model"])
    assert [answer.result()["status"] for answer in held] == ["succeeded"] * 3
    assert len(world.payments.calls_for("drained")) == EACH
    assert world.effects.count("counted") == EACH
    assert world.model.steps("<load model") == [0] * EACH


async def held_request(deployment: Deployment, run: str) -> Json:
    async with httpx.AsyncClient(base_url=deployment.url, timeout=40) as http:
        answer = await http.get(f"/v1/runs/{run}", headers={"Prefer": "wait=30"})
        body: Json = answer.json()
        return body


async def test_requests_that_are_held_keep_no_api_from_ending(
    world: World, client: Client, deployment: Deployment
) -> None:
    gate = world.gate("llm:arrive")
    run = await client.submit(say("done"))
    await gate.reached()
    held = [asyncio.create_task(held_request(deployment, run["id"])) for _ in range(5)]
    await asyncio.sleep(0.3)  # they are on their way
    assert deployment.api is not None
    began = time.monotonic()
    deployment.api.terminate()
    answers = await asyncio.gather(*held)
    assert await asyncio.to_thread(deployment.api.wait) == 0
    assert time.monotonic() - began < in_time(3)
    assert {answer["status"] for answer in answers} == {"running"}
    await deployment.restart_api()
    gate.open()
    await assert_not_disturbed(client, run["id"])


async def assert_kept_by_policy(
    world: World, client: Client, deployment: Deployment, runs: dict[str, str], mark: str
) -> None:
    """Every run ended; what was cut was done again, or not, as its tool promises."""
    for run in runs.values():
        await client.succeeded(run)
        types = await client.event_types(run)
        assert not {"run.cancelled", "call.cancelled"} & set(types)
        assert await client.strandings(run) == []
    found = {kind: await client.calls(run) for kind, run in runs.items()}
    states = {kind: (c["state"], c["attempts"]) for kind, calls in found.items() for c in calls}
    assert states == {
        "read_only": ("succeeded", 1),
        "idempotent": ("succeeded", 2),
        "at_most_once": ("outcome_unknown", 1),
        "transactional": ("succeeded", 1),
    }
    assert notes(deployment.database_url, runs["transactional"]) == ["noted"]
    assert world.model.steps(f"<{mark} model") == [0, 0]
    assert world.model.steps(f"<{mark} at_most_once") == [0, 1]


async def hands_over(leaver: Process) -> bool:
    return "hands over" in leaver.text()


async def test_a_call_that_a_leaving_worker_cannot_stop_is_made_again_only_after_its_end(
    world: World, client: Client, deployment: Deployment, receiver: Receiver
) -> None:
    """Its thread may act as long as the process lives, and a webhook keeps that from ending."""
    narrow = {"PERDURE_GRACE_SECONDS": "0", "PERDURE_WORKER_CONCURRENCY": "1"}
    await deployment.crash(None, **narrow, PERDURE_WEBHOOK_SECRET="")
    busy, hook = world.gate("llm:0"), receiver.gate("run.queued")
    first = await client.submit(say("done"))
    await busy.reached()
    leaver = await deployment.start_worker(**narrow)  # the other one looks after the dead
    gate = world.gate("threaded:before", span=2)
    step = use("count_once", name="threaded")
    run = await client.submit(step, say("done"), agent="threaded", callback={"url": receiver.url})
    await gate.reached()
    await hook.reached()
    busy.open()
    await client.succeeded(first["id"])
    leaving = asyncio.create_task(deployment.terminate(leaver))
    await gate.reached(holding=2)
    assert leaver.exit_code == 0
    assert await leaving == 0
    gate.open()
    await client.succeeded(run["id"])
    assert world.effects.count("threaded") == 1
    assert (await client.call(run["id"]))["attempts"] == 2


@pytest.mark.parametrize("how", ["a second signal", "no grace", "a short grace"])
async def test_what_a_leaving_worker_cuts_goes_on_elsewhere_by_policy(
    world: World, client: Client, deployment: Deployment, how: str
) -> None:
    grace = {"a second signal": "60", "no grace": "0", "a short grace": "1"}[how]
    await deployment.crash(PERDURE_GRACE_SECONDS=grace)
    before = len(world.payments.calls_for("drained"))
    runs, gates = await caught(world, client, how)
    leaver = deployment.worker
    leaving = asyncio.create_task(deployment.terminate(leaver))
    if how == "a second signal":
        await eventually(lambda: hands_over(leaver), "it has heard the first one")
        leaver.terminate()
    began = time.monotonic()
    assert await leaving == (1 if how == "a second signal" else 0)
    assert time.monotonic() - began < in_time(float(grace) % 60 + 3)
    await deployment.start_worker()
    only = {kind: run for kind, [run] in runs.items()}
    await assert_kept_by_policy(world, client, deployment, only, how)
    assert len(world.payments.calls_for("drained")) == before + 1
    for gate in gates:
        await gate.freed()
