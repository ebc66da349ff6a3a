"""A run that waits for the clock or for an answer holds nothing, and goes on when it comes."""

import asyncio
from datetime import datetime, timedelta

import httpx
import pytest

from tests.support.client import Client, Json
from tests.support.deployment import Deployment
from tests.support.inspection import clock
from tests.support.polling import in_time
from tests.support.sabotage import held_commit
from tests.support.scripts import say, together, use
from tests.support.world import World

AT_MOST_LATE = 1.0  # on a machine that has time


def seconds_late(wait: Json) -> float:
    """How long after it was due, or was opened if that came later, it was over."""
    moments = [
        datetime.fromisoformat(wait[name]) for name in ("deadline", "created_at", "resolved_at")
    ]
    return (moments[2] - max(moments[0], moments[1])).total_seconds()


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


@pytest.mark.calm
async def test_a_timer_goes_off_within_a_second(client: Client) -> None:
    run = await client.submit(use("sleep_for", seconds=1.5), say("awake"))
    shown = await client.open_wait(run["id"], kind="timer")
    assert (await client.run(run["id"]))["worker"] is None
    await client.succeeded(run["id"])
    (wait,) = await client.waits(run["id"])
    assert (wait["id"], wait["state"], wait["resolved_via"]) == (shown["id"], "resolved", "clock")
    assert 0 <= seconds_late(wait) < in_time(AT_MOST_LATE)


@pytest.mark.calm
async def test_two_hundred_timers_that_are_due_at_once_go_off_together(
    world: World, client: Client, deployment: Deployment
) -> None:
    due = clock(deployment.database_url) + timedelta(seconds=8)
    sleeps = together(*(use("sleep_until", at=due.isoformat()) for _ in range(10)))
    submitted = (client.submit(sleeps, say("awake"), preface="<flock> ") for _ in range(20))
    runs = [run["id"] for run in await asyncio.gather(*submitted)]
    for run in runs:
        await client.succeeded(run, within=40)
    late = [seconds_late(wait) for run in runs for wait in await client.waits(run, kind="timer")]
    assert len(late) == 200
    assert min(late) >= 0
    assert max(late) < 20  # each is a commit of its own; how fast they are depends on the machine
    assert sorted(world.model.steps("<flock> ")) == [0] * 20 + [1] * 20


@pytest.mark.calm
async def test_nobody_answers_a_timer_over_http(client: Client) -> None:
    run = await client.submit(use("sleep_for", seconds=3600), say("awake"))
    wait = await client.open_wait(run["id"], kind="timer")
    refused = await client.resolve(wait["id"], {"text": "now"})
    assert (refused.status_code, refused.json()["type"]) == (422, "/problems/invalid-request")
    assert (await client.cancel(run["id"])).json()["status"] == "cancelled"


@pytest.mark.mended
@pytest.mark.parametrize("how", ["rolled_back", "committed"])
async def test_kill_of_the_api_in_the_commit_of_a_persons_words_keeps_them_whole_or_not_at_all(
    world: World, client: Client, deployment: Deployment, how: str
) -> None:
    question = f"<{how}> Which colour?"
    run = await client.submit(use("ask_user", question=question), say("noted"))
    wait = await client.open_wait(run["id"], kind="input")
    with held_commit(deployment.database_url, "wait.resolved") as commit:
        answer = asyncio.create_task(client.resolve(wait["id"], {"text": "mauve"}))
        await commit.reached()
        deployment.kill9_api()
        commit.end(how)
        with pytest.raises(httpx.TransportError):
            await answer
    await deployment.restart_api()
    if how == "rolled_back":
        assert await client.open_wait(run["id"], kind="input") == wait
    assert (await client.resolve(wait["id"], {"text": "mauve"})).status_code == 200
    await client.succeeded(run["id"])
    assert str(world.model.about(question)[-1].last_results).count("mauve") == 1
    assert world.model.steps(question) == [0, 1]
    assert await client.strandings(run["id"]) == []


@pytest.mark.mended
async def test_kill_right_after_an_answer_was_accepted_loses_no_word_of_it(
    world: World, client: Client, deployment: Deployment
) -> None:
    run = await client.submit(use("ask_user", question="<kill> Which day?"), say("noted"))
    wait = await client.open_wait(run["id"], kind="input")
    assert (await client.resolve(wait["id"], {"text": "on Monday"})).status_code == 200
    await deployment.restart()
    await client.succeeded(run["id"])
    assert "on Monday" in str(world.model.about("<kill> ")[-1].last_results)
    assert (await client.event_types(run["id"])).count("wait.resolved") == 1
    assert set(world.model.steps("<kill> ")) == {0, 1}


@pytest.mark.calm
@pytest.mark.parametrize(
    ("kind", "ask"),
    [
        ("input", use("ask_soon", question="<too late> Quick?")),
        ("external", use("sign_soon", document="<too late> d")),
    ],
)
async def test_a_question_that_nobody_answers_expires(
    world: World, client: Client, kind: str, ask: dict[str, object]
) -> None:
    run = await client.submit(ask, say("without it"), preface=f"<{kind} expires> ")
    await client.succeeded(run["id"])
    assert (await client.call(run["id"]))["state"] == "expired"
    (told,) = world.model.about(f"<{kind} expires> ")[-1].last_results
    assert told["is_error"] is True
    assert "expired" in str(told["content"])
    (wait,) = await client.waits(run["id"])
    assert (wait["kind"], wait["state"]) == (kind, "expired")
    assert 0 <= seconds_late(wait) < in_time(AT_MOST_LATE)
    late = await client.resolve(wait["id"], {"text": "x"} if kind == "input" else {"result": {}})
    assert (late.status_code, late.json()["type"]) == (410, "/problems/wait-closed")
    types = await client.event_types(run["id"])
    assert (types.count("wait.expired"), types.count("call.expired")) == (1, 1)
