"""What a run ends with where the agent, or a tool, says what that must be."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio
from pydantic import BaseModel, field_validator

from app import Agent, tool
from tests.acceptance.conftest import deployed
from tests.support.client import Client
from tests.support.database import Cluster
from tests.support.deployment import Deployment
from tests.support.outside import Reply
from tests.support.scripts import say, use
from tests.support.world import World


class Verdict(BaseModel):
    score: int


@tool(replay="read_only", final=True)
async def conclude(score: int) -> Reply:
    """End the run with this."""
    return {"score": score}


class Reading(BaseModel):
    value: float

    @field_validator("value")
    @classmethod
    def check(cls, value: float) -> float:
        if value < 0:
            raise LookupError("no such thing")
        return value


meter = Agent(name="meter", model="claude-sonnet-5", output=Reading)
judge = Agent(name="judge", model="claude-sonnet-5", output=Verdict)
closer = Agent(name="closer", model="claude-sonnet-5", tools=[conclude])


@pytest_asyncio.fixture
async def own_deployment(cluster: Cluster, tmp_path: Path) -> AsyncIterator[Deployment]:
    async with deployed(cluster, tmp_path, PERDURE_AGENTS=__name__) as deployment:
        yield deployment


async def test_an_answer_that_fits_becomes_data_and_another_fails(client: Client) -> None:
    good = await client.submit(say('{"score": 7}'), agent="judge")
    assert (await client.succeeded(good["id"]))["output"]["data"] == {"score": 7}
    bad = await client.submit(say("seven, I think"), agent="judge")
    failed = await client.ended(bad["id"])
    assert (failed["status"], failed["reason"]) == ("failed", "output_invalid")


async def test_an_answer_that_breaks_its_validator_fails_and_no_number_is_null(
    client: Client,
) -> None:
    bad = await client.submit(say('{"value": -1}'), agent="meter")
    failed = await client.ended(bad["id"])
    assert (failed["status"], failed["reason"]) == ("failed", "output_invalid")
    odd = await client.submit(say('{"value": NaN}'), agent="meter")
    assert (await client.succeeded(odd["id"]))["output"]["data"] == {"value": None}


async def test_a_final_tool_ends_the_run_with_its_result(world: World, client: Client) -> None:
    run = await client.submit(use("conclude", score=3), say("never asked"), agent="closer")
    assert (await client.succeeded(run["id"]))["output"]["data"] == {"score": 3}
    assert world.model.steps() == [0]
