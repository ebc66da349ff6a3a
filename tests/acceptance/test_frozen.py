"""A worker that freezes loses its runs; when it wakes up, what it still does is refused."""

import asyncio

import pytest
from sqlalchemy import text as sql

from app import Agent, ToolContext, tool
from tests.support.client import Client
from tests.support.deployment import Deployment
from tests.support.environment import AGENTS
from tests.support.gates import Gate
from tests.support.inspection import notes
from tests.support.outside import Reply, effect, effect_sync
from tests.support.processes import Process
from tests.support.scripts import Step, say, use
from tests.support.tools import INSERT_NOTE
from tests.support.world import World

pytestmark = pytest.mark.mended

SERVICE = {"PERDURE_AGENTS": f"{AGENTS},{__name__}", "PERDURE_LEASE_SECONDS": "3"}

LOCK = sql("select pg_advisory_xact_lock(hashtext(:name))")


@tool(replay="transactional", timeout=60)
async def locking(ctx: ToolContext, name: str) -> Reply:
    """Write a note under a lock that the next attempt needs as well."""
    await ctx.connection.execute(LOCK, {"name": name})
    await ctx.connection.execute(INSERT_NOTE, {"run": ctx.run_id, "text": name})
    return await effect(name, ctx)


@tool(replay="transactional", timeout=60)
def locking_sync(ctx: ToolContext, name: str) -> Reply:
    """The same from a thread."""
    ctx.connection.execute(LOCK, {"name": name})
    ctx.connection.execute(INSERT_NOTE, {"run": ctx.run_id, "text": name})
    return effect_sync(name, ctx)


TERMINAL = ("run.succeeded", "run.failed", "run.cancelled", "run.dead_letter")
LOCKING = ("locking", "locking_sync")
PAYING = ("pay_idem", "pay_once", "pay_once_r")
# The call's state and attempts; requests and payments that the provider saw.
PAID = {
    "pay_idem after": (("succeeded", 2), (2, 1)),
    "pay_once after": (("outcome_unknown", 1), (1, 1)),
    "pay_once_r after": (("succeeded", 1), (1, 1)),
    "pay_idem before": (("succeeded", 2), (2, 1)),
    "pay_once before": (("outcome_unknown", 1), (1, 0)),
    "pay_once_r before": (("outcome_unknown", 1), (1, 0)),
}

locker = Agent(
    name="locker", model="claude-sonnet-5", instructions="Note it.", tools=[locking, locking_sync]
)


async def frozen(deployment: Deployment) -> Process:
    """The only worker, stopped in the middle of what it does; another one has come."""
    worker = deployment.worker
    worker.freeze()
    await deployment.start_worker()
    return worker


async def caught(
    client: Client, gate: Gate, *steps: Step, agent: str = "desk", preface: str = ""
) -> list[str]:
    """One run for each step, all of them held at the gate."""
    told = [await client.submit(step, say("done"), agent=agent, preface=preface) for step in steps]
    await gate.reached(holding=len(told))
    return [run["id"] for run in told]


async def caught_paying(world: World, client: Client) -> tuple[dict[str, str], list[Gate]]:
    """Runs by tool and window."""
    runs: dict[str, str] = {}
    gates: list[Gate] = []
    for window in ("after", "before"):
        gates.append(world.gate(f"pay:{window}", span=len(PAYING)))
        names = [f"{name} {window}" for name in PAYING]
        steps = [use(name.split()[0], ref=name) for name in names]
        runs |= dict(zip(names, await caught(client, gates[-1], *steps), strict=True))
    return runs, gates


async def assert_taken(client: Client, run: str, worker: str) -> None:
    """Taken over from this worker, which wrote nothing afterwards, and ended once."""
    events = await client.events(run)
    types = [event["type"] for event in events]
    taken = types.index("run.taken_over")
    assert events[taken]["data"]["from_worker"] == worker
    assert worker not in [event["data"].get("worker") for event in events[taken:]]
    assert (types[-1], sum(kind in TERMINAL for kind in types)) == ("run.succeeded", 1)
    assert await client.strandings(run) == []


async def state(client: Client, run: str) -> tuple[str, int]:
    """Of its only call, with the number of attempts."""
    call = await client.call(run)
    return call["state"], call["attempts"]


def paid(world: World, ref: str) -> tuple[int, int]:
    return len(world.payments.calls_for(ref)), len(world.payments.rows_for(ref))


@pytest.mark.case("B03", "B05")
async def test_freeze_in_each_tool_and_in_the_model_call_is_taken_over_by_policy(
    world: World, client: Client, deployment: Deployment
) -> None:
    runs, gates = await caught_paying(world, client)
    for name in LOCKING:
        gates.append(world.gate(f"{name}:after"))
        (runs[name],) = await caught(client, gates[-1], use(name, name=name), agent="locker")
    gates.append(world.gate("doc:before"))
    (runs["read"],) = await caught(client, gates[-1], use("doc_read", name="d"))
    gates.append(world.gate("llm:0"))
    (runs["asked"],) = await caught(client, gates[-1], say("hello"), preface="<asked>")
    worker = (await client.run(runs["asked"]))["worker"]

    process = await frozen(deployment)
    await asyncio.gather(*(client.succeeded(run) for run in runs.values()))
    assert await deployment.thaw(process) == 1
    for gate in gates:
        await gate.freed()

    for run in runs.values():
        await assert_taken(client, run, worker)
    for name, expected in PAID.items():
        assert (name, await state(client, runs[name]), paid(world, name)) == (name, *expected)
    for name in ("pay_idem after", "pay_idem before"):
        assert len({call.key for call in world.payments.calls_for(name)}) == 1
    for name in LOCKING:
        assert notes(deployment.database_url, runs[name]) == [name]
    assert len(world.documents.reads) == 2
    assert world.model.steps("<asked>") == [0, 0]
    assert (await client.run(runs["asked"]))["usage"]["repaid_model_calls"] == 1


async def test_a_payment_of_a_frozen_worker_that_lands_late_is_made_once(
    world: World, client: Client, deployment: Deployment
) -> None:
    """A hook that finds nothing proves nothing while the worker may wake up."""
    gate = world.gate("pay:before", span=2)
    names = ("pay_idem", "pay_once_r")
    runs = await caught(client, gate, *(use(name, ref=f"late {name}") for name in names))
    process = await frozen(deployment)
    for run in runs:
        await client.succeeded(run)
    assert [paid(world, f"late {name}") for name in names] == [(2, 1), (1, 0)]
    assert (await client.call(runs[1]))["state"] == "outcome_unknown"

    gate.open()
    await gate.freed()
    assert await deployment.thaw(process) == 1
    assert [paid(world, f"late {name}") for name in names] == [(2, 1), (1, 1)]
    assert await state(client, runs[1]) in [("outcome_unknown", 1), ("succeeded", 1)]
    assert (await client.event_types(runs[0])).count("run.succeeded") == 1
