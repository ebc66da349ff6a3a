"""Tools that run on the client's side: what it posts is checked, kept and told once."""

from datetime import datetime

import pytest

from tests.support.client import Client, Json
from tests.support.deployment import Deployment
from tests.support.inspection import pass_time
from tests.support.scripts import say, together, use
from tests.support.world import World

SIGNED = {"by": "ann", "pages": 3}
UNFIT: list[tuple[Json, str]] = [
    ({"result": {"by": "ann"}}, "pages"),
    ({"result": {"by": "ann", "pages": "many"}}, "pages"),
    ({"result": ["ann", 3]}, "object"),
    ({"result": None}, "object"),
    ({"result": {"by": "ann"}, "is_error": False}, "pages"),
]


@pytest.mark.calm
async def test_a_result_that_does_not_fit_is_refused_and_the_next_one_taken(
    world: World, client: Client
) -> None:
    run = await client.submit(use("sign", document="deed"), say("signed"), preface="<deed> ")
    wait = await client.open_wait(run["id"], kind="external")
    assert (wait["tool"], wait["arguments"]) == ("sign", {"document": "deed"})
    for body, word in UNFIT:
        refused = await client.resolve(wait["id"], body)
        assert (refused.status_code, refused.json()["type"]) == (422, "/problems/invalid-request")
        (error,) = refused.json()["errors"]
        assert error["field"] == "result"
        assert word in error["message"]
        assert await client.open_wait(run["id"], kind="external") == wait
    for _ in range(2):
        assert (await client.resolve(wait["id"], {"result": SIGNED})).status_code == 200
    await client.succeeded(run["id"])
    assert (await client.call(run["id"]))["result"] == SIGNED
    (told,) = world.model.about("<deed> ")[-1].last_results
    assert not told.get("is_error")
    assert "ann" in str(told["content"])
    assert world.model.steps("<deed> ") == [0, 1]
    other = await client.resolve(wait["id"], {"result": {"by": "bob", "pages": 3}})
    assert (other.status_code, other.json()["type"]) == (409, "/problems/already-resolved")


@pytest.mark.calm
async def test_what_failed_on_the_clients_side_is_told_as_an_error(
    world: World, client: Client
) -> None:
    run = await client.submit(use("sign", document="torn"), say("a pity"), preface="<torn> ")
    wait = await client.open_wait(run["id"], kind="external")
    body = {"result": "the pen is dry", "is_error": True}
    assert (await client.resolve(wait["id"], body)).status_code == 200
    await client.succeeded(run["id"])
    assert (await client.call(run["id"]))["state"] == "failed"
    (told,) = world.model.about("<torn> ")[-1].last_results
    assert told["is_error"] is True
    assert "the pen is dry" in str(told["content"])


@pytest.mark.calm
async def test_what_a_client_is_to_run_may_need_an_approval_first(
    world: World, client: Client
) -> None:
    run = await client.submit(
        use("sign", document="will"), say("signed"), agent="cautious", preface="<will> "
    )
    approval = await client.open_wait(run["id"])
    early = await client.resolve(approval["id"], {"result": SIGNED})
    assert early.status_code == 422
    await client.allow(approval["id"])
    wait = await client.open_wait(run["id"], kind="external")
    assert wait["call"] == approval["call"]
    assert (await client.resolve(wait["id"], {"result": SIGNED})).status_code == 200
    await client.succeeded(run["id"])
    states = {each["kind"]: each["state"] for each in await client.waits(run["id"])}
    assert states == {"approval": "resolved", "external": "resolved"}
    assert world.model.steps("<will> ") == [0, 1]


@pytest.mark.mended
async def test_kill_between_the_answers_of_two_clients_keeps_the_first(
    world: World, client: Client, deployment: Deployment
) -> None:
    run = await client.submit(
        together(use("sign", document="one"), use("sign", document="two")),
        say("signed"),
        preface="<both> ",
    )
    one, two = await client.open_waits(run["id"], "external", count=2)
    assert (await client.resolve(two["id"], {"result": SIGNED})).status_code == 200
    await deployment.restart()
    assert (await client.open_wait(run["id"], kind="external"))["id"] == one["id"]
    assert (await client.resolve(one["id"], {"result": SIGNED | {"by": "bob"}})).status_code == 200
    await client.succeeded(run["id"])
    told = [str(result["content"]) for result in world.model.about("<both> ")[-1].last_results]
    assert ["bob" in told[0], "ann" in told[1]] == [True, True]
    assert world.model.steps("<both> ") == [0, 1]


@pytest.mark.calm
async def test_a_question_is_reminded_of_once_when_its_time_runs_out(client: Client) -> None:
    run = await client.submit(use("sign_today", document="late"), say("unsigned"))
    wait = await client.open_wait(run["id"], kind="external")
    await client.succeeded(run["id"])
    events = [e for e in await client.events(run["id"]) if e["type"].startswith("wait.")]
    assert [e["type"] for e in events] == ["wait.opened", "wait.reminder", "wait.expired"]
    reminder = events[1]
    assert (reminder["data"]["wait"], reminder["data"]["kind"]) == (wait["id"], "external")
    opened, reminded, deadline = (
        datetime.fromisoformat(moment)
        for moment in (wait["created_at"], reminder["at"], wait["deadline"])
    )
    assert 0.7 <= (reminded - opened) / (deadline - opened) < 1


@pytest.mark.mended
async def test_a_reminder_that_came_due_while_nothing_ran_is_given_once_at_the_start(
    client: Client, deployment: Deployment
) -> None:
    run = await client.submit(use("sign_later", document="slow"), say("signed"))
    wait = await client.open_wait(run["id"], kind="external")
    deployment.kill9()
    pass_time(deployment.database_url, run["id"], 50 * 60)
    assert "wait.reminder" not in await client.event_types(run["id"])
    await deployment.start_worker()
    await deployment.start_worker()
    late = await client.submit(use("sleep_for", seconds=1), say("both have swept"))
    await client.succeeded(late["id"])
    deployment.kill9(deployment.workers[0])
    assert (await client.event_types(run["id"])).count("wait.reminder") == 1
    assert (await client.resolve(wait["id"], {"result": "ok"})).status_code == 200
    await client.succeeded(run["id"])
    assert (await client.event_types(run["id"])).count("wait.reminder") == 1
