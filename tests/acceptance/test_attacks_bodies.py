"""Tools and hooks that break out of what they were given: a run ends, an effect is bounded."""

import asyncio
import os
import resource
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
import pytest_asyncio
from sqlalchemy import text as sql

from app import Agent, DidNotHappen, ToolContext, ToolError, tool
from tests.acceptance.conftest import deployed
from tests.support.client import Client
from tests.support.database import Cluster
from tests.support.deployment import Deployment
from tests.support.inspection import notes
from tests.support.outside import Reply, effect
from tests.support.polling import eventually
from tests.support.scripts import say, use
from tests.support.tools import INSERT_NOTE
from tests.support.world import World


class Escape(BaseException):
    """What `except Exception` does not see."""


async def _note(ctx: ToolContext) -> None:
    await effect("body", ctx)
    await ctx.connection.execute(INSERT_NOTE, {"run": ctx.run_id, "text": "n"})


@tool(replay="transactional")
async def commits(ctx: ToolContext) -> Reply:
    """Commit by itself."""
    await _note(ctx)
    await ctx.connection.commit()
    return {}


@tool(replay="transactional")
async def rolls_back(ctx: ToolContext) -> Reply:
    """Roll back by itself."""
    await _note(ctx)
    await ctx.connection.rollback()
    return {}


@tool(replay="transactional")
async def hides_sql_error(ctx: ToolContext) -> Reply:
    """Return as if nothing had happened, in a transaction that is aborted."""
    await _note(ctx)
    try:
        await ctx.connection.execute(sql("select 1 / 0"))
    except Exception:  # noqa: BLE001 - what the test is about
        return {}
    return {}


@tool(replay="transactional")
async def changes_role(ctx: ToolContext) -> Reply:
    """Leave the transaction without the right to write the outcome."""
    await _note(ctx)
    await ctx.connection.execute(sql("set local role pg_monitor"))
    return {}


@tool(replay="transactional")
async def idles(ctx: ToolContext) -> Reply:
    """Be idle in the transaction for longer than the database allows."""
    await _note(ctx)
    await ctx.connection.execute(sql("set local idle_in_transaction_session_timeout = '300ms'"))
    await asyncio.sleep(1)
    return {}


@tool(replay="idempotent", attempts=1)
async def escapes(ctx: ToolContext) -> Reply:
    """Raise what is no Exception."""
    await effect("body", ctx)
    raise Escape


@tool(replay="idempotent", attempts=1)
async def interrupts(ctx: ToolContext) -> Reply:
    """Raise what asyncio lets through to the event loop."""
    await effect("body", ctx)
    raise KeyboardInterrupt


@tool(replay="idempotent", attempts=1)
async def leaves(ctx: ToolContext) -> Reply:
    """Raise what ends a coroutine."""
    await effect("body", ctx)
    raise GeneratorExit


class Mute(ToolError):
    """An error that cannot be told."""

    def __str__(self) -> str:
        raise LookupError


@tool(replay="idempotent", attempts=1)
async def fails_mutely(ctx: ToolContext) -> Reply:
    """Raise an error that cannot be told."""
    await effect("body", ctx)
    raise Mute


@tool(replay="idempotent", attempts=1)
async def breaks_off(ctx: ToolContext) -> object:
    """Return what ends the interpreter when it is read."""
    await effect("body", ctx)
    return (sys.exit(3) for _ in range(1))


@tool()
async def ends_the_loop(ctx: ToolContext) -> Reply:
    """End what every leg of this worker runs on."""
    await effect("body", ctx)
    asyncio.get_running_loop().stop()
    await asyncio.sleep(60)
    return {}


@tool()
async def fails_at_length(ctx: ToolContext) -> Reply:
    """Raise an error of a million letters."""
    raise ToolError("x" * 1_000_000)


async def escaping_hook(ctx: ToolContext, args: Reply) -> Reply:
    await effect("body", ctx)
    raise Escape


@tool(before=escaping_hook)
async def escapes_before(ctx: ToolContext) -> Reply:
    """Have a hook that raises what is no Exception."""
    return {}


async def not_yet(ctx: ToolContext, args: Reply) -> DidNotHappen:
    return DidNotHappen()


@tool(reconcile=not_yet, timeout=0.5)
async def ignores_cancel(ctx: ToolContext) -> Reply:
    """Act after a while, whoever asks it to stop."""
    await effect("body", ctx)
    for _ in range(12):
        try:
            await asyncio.sleep(0.5)
        except asyncio.CancelledError:
            continue
    await effect("acted", ctx)
    return {}


@tool(replay="idempotent")
async def hoards_files(ctx: ToolContext) -> Reply:
    """Open as many files as a process may, and keep them; but once."""
    await effect("body", ctx)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, most))
    with suppress(OSError):
        while ctx.attempt == 1:
            os.open(os.devnull, os.O_RDONLY)
    return {}


TRANSACTIONAL = [commits, rolls_back, hides_sql_error, changes_role, idles]
attacker = Agent(
    name="attacker",
    model="claude-sonnet-5",
    instructions="Attack.",
    tools=[
        *(*TRANSACTIONAL, escapes, interrupts, escapes_before, ignores_cancel),
        *(leaves, fails_mutely, breaks_off, ends_the_loop, fails_at_length, hoards_files),
    ],
)


@pytest_asyncio.fixture
async def own_deployment(cluster: Cluster, tmp_path: Path) -> AsyncIterator[Deployment]:
    async with deployed(cluster, tmp_path, PERDURE_AGENTS=__name__) as deployment:
        yield deployment


@pytest.mark.parametrize("name", [tool.name for tool in TRANSACTIONAL])
async def test_a_transaction_that_was_tampered_with_is_bounded(
    world: World, client: Client, deployment: Deployment, name: str
) -> None:
    run = await client.submit(use(name), say("noted"), agent="attacker")
    ended = await client.ended(run["id"], within=20)
    call = await client.call(run["id"])
    assert (ended["status"], call["state"] in ("failed", "succeeded")) == ("succeeded", True)
    assert world.effects.count("body") <= 3  # `attempts`
    written = notes(deployment.database_url, run["id"])
    assert written == (["n"] if call["state"] == "succeeded" else [])


@pytest.mark.parametrize(
    "name", ["escapes", "interrupts", "escapes_before", "leaves", "fails_mutely", "breaks_off"]
)
async def test_what_is_no_exception_ends_the_call_and_nothing_else(
    world: World, client: Client, deployment: Deployment, name: str
) -> None:
    run = await client.submit(use(name), say("told"), agent="attacker")
    await client.ended(run["id"], within=30)
    assert await client.strandings(run["id"]) == []
    later = await client.submit(say("alive"), agent="attacker")
    await client.succeeded(later["id"])
    assert deployment.worker.exit_code is None
    assert world.effects.count("body") == 1


async def test_an_error_is_told_as_far_as_a_conversation_can_bear(client: Client) -> None:
    run = await client.submit(use("fails_at_length"), say("told"), agent="attacker")
    await client.succeeded(run["id"])
    call = await client.call(run["id"])
    assert (call["state"], len(str(call["result"])) < 256 * 1024) == ("failed", True)


async def test_a_worker_whose_legs_cannot_go_on_leaves_them_to_another(
    world: World, client: Client, deployment: Deployment
) -> None:
    run = await client.submit(use("ends_the_loop"), say("told"), agent="attacker")
    await eventually(lambda: _has_begun(world), "the body has begun")
    broken = deployment.worker
    await deployment.start_worker()
    await client.succeeded(run["id"])
    assert (await client.call(run["id"]))["state"] == "outcome_unknown"
    assert (world.effects.count("body"), broken.exit_code) == (1, 1)


async def test_a_worker_that_can_open_nothing_any_more_leaves_its_runs_to_another(
    world: World, client: Client, deployment: Deployment
) -> None:
    run = await client.submit(use("hoards_files"), say("told"), agent="attacker")
    await eventually(lambda: _has_begun(world), "the body has begun")
    short = deployment.worker
    assert await asyncio.to_thread(short.wait) == 1
    await deployment.start_worker()
    await client.succeeded(run["id"])
    await client.succeeded((await client.submit(say("alive"), agent="attacker"))["id"])


async def test_a_body_that_ignores_its_time_out_does_not_hold_the_run(
    world: World, client: Client
) -> None:
    run = await client.submit(use("ignores_cancel"), say("told"), agent="attacker")
    await client.succeeded(run["id"], within=4)
    assert (await client.call(run["id"]))["state"] == "outcome_unknown"
    assert world.effects.count("body") == 1  # it may still act: "did not happen" proves nothing


async def test_a_cancelled_body_that_goes_on_acting_is_not_called_absent(
    world: World, client: Client
) -> None:
    run = await client.submit(use("ignores_cancel"), say("told"), agent="attacker")
    await eventually(lambda: _has_begun(world), "the body has begun")
    await client.cancel(run["id"])
    await client.ended(run["id"], within=20)
    await eventually(lambda: _has_acted(world), "the body has acted")
    assert (await client.call(run["id"]))["state"] in ("outcome_unknown", "succeeded")


async def _has_begun(world: World) -> bool:
    return world.effects.count("body") == 1


async def _has_acted(world: World) -> bool:
    return world.effects.count("acted") == 1
