"""Runs of one session: one after the other, each knows the ones before, none repeats their acts."""

import asyncio
from itertools import pairwise

import pytest

from tests.support.client import Client
from tests.support.deployment import Deployment
from tests.support.scripts import answer, say, use
from tests.support.world import World

SESSIONS = 6
pytestmark = pytest.mark.calm
SAME_CALL = {
    "type": "tool_use",
    "id": "toolu_same",
    "name": "refund",
    "input": {"ref": "again"},
}


@pytest.mark.case("B39")
async def test_two_submits_to_one_session_from_two_processes_are_serial(
    world: World, client: Client, deployment: Deployment
) -> None:
    async with Client(await deployment.start_another_api()) as other:

        async def race(session: str) -> None:
            submitting = (
                by.submit(
                    use("count", name=f"{session} {name}"),
                    say(f"<answer {session} {name}>"),
                    preface=f"<order {session} {name}> ",
                    session=session,
                )
                for by, name in ((client, "one"), (other, "two"))
            )
            for run in await asyncio.gather(*submitting):
                await client.succeeded(run["id"], within=60)
            await assert_serial(world, client, session)

        await asyncio.gather(*(race(f"b39-{n}") for n in range(SESSIONS)))


async def assert_serial(world: World, client: Client, session: str) -> None:
    """The later run began when the earlier had ended, and was told all of it, in order."""
    found = (await client.http.get(f"/v1/sessions/{session}")).json()["runs"]
    earlier, later = sorted(
        [await client.run(run) for run in found], key=lambda run: str(run["started_at"])
    )
    assert earlier["finished_at"] <= later["started_at"]
    names = ["one", "two"] if " one> " in earlier["input"] else ["two", "one"]
    requests = world.model.about(f"{session} {names[0]}")
    assert [request.step for request in requests] == [0, 1, 2, 3]
    assert [f"{session} {names[1]}" in request.transcript for request in requests] == [
        *(False, False),
        *(True, True),
    ]
    told = [f"<{what} {session} {name}>" for name in names for what in ("order", "answer")]
    places = [requests[-1].transcript.find(text) for text in told[:3]]
    assert all(0 < before < after for before, after in pairwise(places))
    assert [world.effects.count(f"{session} {name}") for name in names] == [1, 1]


@pytest.mark.case("B15")
async def test_what_was_approved_in_one_run_does_nothing_in_later_ones(
    world: World, client: Client
) -> None:
    run = await client.submit(use("refund", ref="b15"), say("refunded"), session="b15")
    await client.allow((await client.open_wait(run["id"]))["id"])
    await client.succeeded(run["id"])
    for n in range(3):
        later = await client.submit(use("echo", value=n), say("noted"), session="b15")
        await client.succeeded(later["id"])
        assert [call["tool"] for call in await client.calls(later["id"])] == ["echo"]
        assert await client.waits(later["id"]) == []
    assert len(world.payments.calls_for("b15")) == 1


@pytest.mark.case("B15")
async def test_an_approval_is_for_one_call_and_not_for_the_next_one_like_it(
    world: World, client: Client
) -> None:
    ask = answer(SAME_CALL, stop_reason="tool_use")
    first = await client.submit(ask, say("refunded"), session="again")
    allowed = await client.allow((await client.open_wait(first["id"]))["id"])
    await client.succeeded(first["id"])
    second = await client.submit(ask, say("understood"), session="again")
    asked = await client.open_wait(second["id"])
    assert asked["arguments_hash"] == allowed["arguments_hash"]
    assert len(world.payments.calls_for("again")) == 1
    await client.deny(asked["id"])
    await client.succeeded(second["id"])
    assert len(world.payments.calls_for("again")) == 1
