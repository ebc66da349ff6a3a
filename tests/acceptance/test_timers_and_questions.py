"""A run that waits for the clock or for an answer holds nothing, and goes on when it comes."""

import pytest

from tests.support.client import Client
from tests.support.deployment import Deployment
from tests.support.scripts import say, use
from tests.support.world import World


@pytest.mark.calm
async def test_a_question_is_answered_in_the_persons_words(world: World, client: Client) -> None:
    run = await client.submit(use("ask_user", question="Which colour?"), say("blue it is"))
    wait = await client.open_wait(run["id"], kind="input")
    assert (wait["question"], wait["tool"]) == ("Which colour?", "ask_user")
    answer = {"text": "Blue, please \u00e4\u2603"}
    assert (await client.resolve(wait["id"], answer)).status_code == 200
    await client.succeeded(run["id"])
    assert "Blue, please \u00e4\u2603" in str(world.model.requests[-1].last_results)
    assert (await client.resolve(wait["id"], answer)).status_code == 200
    other = await client.resolve(wait["id"], {"text": "Red"})
    assert (other.status_code, other.json()["type"]) == (409, "/problems/already-resolved")


async def test_a_timer_that_came_due_while_nothing_ran_goes_off_at_the_start(
    world: World, client: Client, deployment: Deployment
) -> None:
    run = await client.submit(use("sleep_for", seconds=1.5), say("awake"))
    await client.open_wait(run["id"], kind="timer")
    await deployment.restart()
    await client.succeeded(run["id"], within=20)
    assert world.model.steps() == [0, 1]


@pytest.mark.calm
async def test_a_moment_of_the_past_is_no_wait(world: World, client: Client) -> None:
    run = await client.submit(use("sleep_until", at="2020-01-01T00:00:00+01:00"), say("late"))
    await client.succeeded(run["id"])


@pytest.mark.calm
async def test_a_moment_without_a_zone_is_refused(world: World, client: Client) -> None:
    run = await client.submit(use("sleep_until", at="2020-01-01T00:00:00"), say("late"))
    await client.succeeded(run["id"])
    assert (await client.call(run["id"]))["state"] == "failed"
