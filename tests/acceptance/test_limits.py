"""Limits hold over restarts, and reaching one is not a success."""

import asyncio

import pytest

from tests.support.client import Client
from tests.support.deployment import Deployment
from tests.support.scripts import say, together, use
from tests.support.world import World


@pytest.mark.case("A46")
async def test_turns_are_counted_over_a_restart(
    world: World, client: Client, deployment: Deployment
) -> None:
    gate = world.gate("llm:1")
    steps = [use("count", name=name) for name in ("a", "b", "c", "d")]
    run = await client.submit(*steps, say("done"), limits={"turns": 3})
    await gate.reached()
    await deployment.crash()
    failed = await client.wait_for(run["id"], "failed")
    assert failed["reason"] == "limit_turns"
    assert world.model.steps() == [0, 1, 1, 2]
    assert [world.effects.count(name) for name in ("a", "b", "c", "d")] == [1, 1, 1, 0]
    assert "limit.reached" in await client.event_types(run["id"])


@pytest.mark.case("A46")
async def test_tokens_are_counted_over_a_restart(
    world: World, client: Client, deployment: Deployment
) -> None:
    def costly(name: str) -> dict[str, object]:
        cache = {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 7000}
        usage = {"input_tokens": 400, "output_tokens": 100, **cache}
        return {**use("count", name=name), "usage": usage}

    gate = world.gate("a:after")
    run = await client.submit(
        costly("a"), costly("b"), costly("c"), say("done"), limits={"tokens": 999}
    )
    await gate.reached()
    await deployment.crash()
    failed = await client.wait_for(run["id"], "failed")
    assert failed["reason"] == "limit_tokens"
    assert failed["usage"]["input_tokens"] + failed["usage"]["output_tokens"] == 1000
    assert world.model.steps() == [0, 1]


@pytest.mark.calm
async def test_a_limit_of_calls_ends_the_run(world: World, client: Client) -> None:
    step = together(*(use("count", name="n") for _ in range(2)))
    run = await client.submit(step, step, step, say("done"), limits={"calls": 3})
    failed = await client.wait_for(run["id"], "failed")
    assert failed["reason"] == "limit_calls"
    assert world.effects.count("n") in (2, 3, 4)


@pytest.mark.calm
async def test_a_limit_of_seconds_ends_the_run(client: Client) -> None:
    run = await client.submit(use("nap", seconds=2), say("done"), limits={"seconds": 1})
    failed = await client.wait_for(run["id"], "failed")
    assert failed["reason"] == "limit_seconds"


@pytest.mark.calm
async def test_parked_time_is_not_counted(client: Client) -> None:
    run = await client.submit(use("refund", ref="slow"), say("done"), limits={"seconds": 2})
    wait = await client.open_wait(run["id"])
    await asyncio.sleep(2.5)  # longer than the limit
    await client.allow(wait["id"])
    await client.succeeded(run["id"])
