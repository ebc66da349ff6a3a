"""What a person says in mid-run reaches the model exactly once, in order, or is refused."""

import pytest

from tests.support.client import Client
from tests.support.deployment import Deployment
from tests.support.model_traffic import ModelRequest
from tests.support.scripts import say, use
from tests.support.world import World


def heard(request: ModelRequest, *texts: str) -> list[str]:
    """Those of `texts` that stand in the request, in its order and as often."""
    return [text for said in request.texts for text in texts if text in said]


@pytest.mark.case("A26", "B37")
async def test_kill_before_the_model_hears_a_message_loses_and_doubles_nothing(
    world: World, client: Client, deployment: Deployment
) -> None:
    gate = world.gate("a:after")
    run = await client.submit(use("count", name="a"), use("count", name="b"), say("done"))
    await gate.reached()
    for text in ("first thing", "second thing"):
        accepted = await client.send(run["id"], text)
        assert (accepted.status_code, accepted.json()["state"]) == (202, "queued")
    await deployment.crash()
    await client.succeeded(run["id"])
    said = ("first thing", "second thing")
    assert [heard(request, *said) for request in world.model.requests] == [
        [],
        ["first thing", "second thing"],
        ["first thing", "second thing"],
    ]
    delivered = [(m["state"], m["turn"]) for m in await client.messages(run["id"])]
    assert delivered == [("delivered", 2), ("delivered", 2)]


@pytest.mark.case("A26", "B37")
async def test_kill_in_the_model_call_that_carries_a_message_sends_it_again(
    world: World, client: Client, deployment: Deployment
) -> None:
    tool, model = world.gate("a:after"), world.gate("llm:1")
    run = await client.submit(use("count", name="a"), use("count", name="b"), say("done"))
    await tool.reached()
    await client.send(run["id"], "only thing")
    tool.open()
    await model.reached()
    await deployment.crash()
    await client.succeeded(run["id"])
    assert world.model.steps() == [0, 1, 1, 2]
    assert [len(heard(request, "only thing")) for request in world.model.requests] == [0, 1, 1, 1]
    (message,) = await client.messages(run["id"])
    assert (message["state"], message["turn"]) == ("delivered", 2)


@pytest.mark.case("A42")
@pytest.mark.calm
async def test_a_message_to_a_parked_run_waits_for_the_decision(
    world: World, client: Client
) -> None:
    run = await client.submit(use("refund", ref="<a42>"), say("done"))
    wait = await client.open_wait(run["id"])
    accepted = await client.send(run["id"], "please hurry")
    assert accepted.status_code == 202
    await client.allow(wait["id"])
    await client.succeeded(run["id"])
    assert heard(world.model.about("<a42>")[-1], "please hurry") == ["please hurry"]


@pytest.mark.calm
async def test_a_message_to_an_ended_run_is_refused(world: World, client: Client) -> None:
    run = await client.submit(say("done"))
    await client.succeeded(run["id"])
    refused = await client.send(run["id"], "too late")
    assert (refused.status_code, refused.json()["type"]) == (409, "/problems/run-ended")
    assert await client.messages(run["id"]) == []


@pytest.mark.calm
async def test_a_message_that_comes_during_the_last_answer_is_not_dropped(
    world: World, client: Client
) -> None:
    gate = world.gate("llm:0")
    run = await client.submit(say("done"), preface="<last> ")
    await gate.reached()
    assert (await client.send(run["id"], "one more thing")).status_code == 202
    gate.open()
    await client.succeeded(run["id"])
    (message,) = await client.messages(run["id"])
    if message["state"] == "delivered":
        assert heard(world.model.about("<last>")[-1], "one more thing") == ["one more thing"]
    else:
        assert message["state"] == "undelivered"
        assert "message.undelivered" in await client.event_types(run["id"])
