"""A fork shares the first turns of a run and what came of them, and does nothing of it again."""

from typing import Any

import pytest

from tests.support.client import Client, Json
from tests.support.scripts import give, say, script, together, use
from tests.support.world import World

pytestmark = pytest.mark.calm

TURNS = 4
OTHER = script(say("another way"))


async def source(client: Client, mark: str, **fields: Any) -> str:
    """A run of four turns with effects of several kinds."""
    run = await client.submit(
        use("count", name=f"{mark}-a"),
        use("refund", ref=f"{mark}-b"),
        together(use("count", name=f"{mark}-c"), use("pay_once", ref=f"{mark}-d")),
        say("as it was"),
        preface=f"<{mark}> ",
        **fields,
    )
    await client.allow((await client.open_wait(run["id"]))["id"])
    await client.succeeded(run["id"])
    return str(run["id"])


async def forked(client: Client, run: str, turn: int, **fields: Any) -> Json:
    answer = await client.fork(run, turn, **fields)
    assert answer.status_code == 202, answer.text
    fork: Json = answer.json()
    assert answer.headers["location"] == f"/v1/runs/{fork['id']}"
    return fork


def done(world: World, mark: str) -> list[int]:
    """How often each effect of a source happened."""
    counted = [world.effects.count(f"{mark}-{name}") for name in "ac"]
    return counted + [len(world.payments.calls_for(f"{mark}-{name}")) for name in "bd"]


async def test_a_fork_at_any_turn_goes_another_way_and_repeats_no_effect(
    world: World, client: Client
) -> None:
    run = await source(client, "away")
    before = await client.run(run)
    for turn in range(1, TURNS + 1):
        asked = len(world.model.requests)
        fork = await forked(client, run, turn, input=OTHER)
        ended = await client.succeeded(fork["id"])
        assert (ended["forked_from"], ended["output"]["text"]) == (run, "another way")
        assert ended["session"] != before["session"]
        assert (ended["turns"], ended["effects"]) == (turn + 1, [])
        (request,) = world.model.requests[asked:]
        assert request.step == turn
        assert request.texts[-1] == OTHER
        theirs = [call for call in await client.calls(run) if call["turn"] <= turn]
        copies = await client.calls(fork["id"])
        same = ("provider_id", "tool", "arguments", "state", "result", "idempotency_key")
        assert [[copy[name] for name in same] for copy in copies] == [
            [call[name] for name in same] for call in theirs
        ]
        assert len(request.tool_results) == len(theirs)
    assert done(world, "away") == [1, 1, 1, 1]
    assert await client.run(run) == before
    assert 400 not in world.model.statuses("<away> ")


async def test_a_fork_without_a_word_takes_the_same_way_with_effects_of_its_own(
    world: World, client: Client
) -> None:
    run = await source(client, "same")
    whole = await forked(client, run, TURNS)
    assert (await client.succeeded(whole["id"]))["output"]["text"] == "as it was"
    last = await forked(client, run, TURNS - 1)
    assert (await client.succeeded(last["id"]))["output"]["text"] == "as it was"
    assert done(world, "same") == [1, 1, 1, 1]

    second = await forked(client, run, 2)
    ended = await client.succeeded(second["id"])
    assert [effect["effect"] for effect in ended["effects"]] == ["confirmed"] * 2
    assert done(world, "same") == [1, 2, 1, 2]
    keys = [effect["key"] for effect in world.effects.details("same-c")]
    assert keys == [f"{run}/3/0", f"{second['id']}/3/0"]
    assert world.model.steps("<same> ") == [0, 1, 2, 3, 3, 2, 3]


async def test_what_needs_a_person_in_a_fork_asks_one_again(world: World, client: Client) -> None:
    run = await source(client, "person")
    fork = await forked(client, run, 1)
    wait = await client.open_wait(fork["id"])
    assert len(world.payments.calls_for("person-b")) == 1
    await client.deny(wait["id"])
    await client.succeeded(fork["id"])
    assert len(world.payments.calls_for("person-b")) == 1


async def test_a_running_run_is_forked_where_its_calls_have_ended(
    world: World, client: Client
) -> None:
    gate = world.gate("under-way:before")
    run = await client.submit(
        use("count", name="ended"), use("count", name="under-way"), say("x"), preface="<way> "
    )
    await gate.reached()
    for turn in (0, 2, 3, 99):
        refused = await client.fork(run["id"], turn, input=OTHER)
        assert (refused.status_code, refused.json()["type"]) == (422, "/problems/invalid-request")
        assert [error["field"] for error in refused.json()["errors"]] == ["turn"]
    fork = await forked(client, run["id"], 1, input=OTHER)
    assert (await client.succeeded(fork["id"]))["output"]["text"] == "another way"
    assert (await client.run(run["id"]))["status"] == "running"
    gate.open()
    await client.succeeded(run["id"])
    assert [world.effects.count(name) for name in ("ended", "under-way")] == [1, 1]


async def test_a_parked_run_is_not_forked_over_its_question(client: Client) -> None:
    run = await client.submit(use("refund", ref="question"), say("x"))
    wait = await client.open_wait(run["id"])
    assert (await client.fork(run["id"], 1)).status_code == 422
    await client.deny(wait["id"])
    await client.succeeded(run["id"])
    fork = await forked(client, run["id"], 1)
    await client.succeeded(fork["id"])
    (call,) = await client.calls(fork["id"])
    assert call["state"] == "denied"


async def test_a_fork_hears_what_its_session_said_before_and_nothing_later(
    world: World, client: Client
) -> None:
    for mark in ("first", "second", "third"):
        run = await client.submit(
            use("count", name="talk"), say(f"{mark} said"), preface=f"<{mark}> ", session="talk"
        )
        await client.succeeded(run["id"])
        if mark == "second":
            middle = run["id"]
    fork = await forked(client, middle, 1, input=f"<fork> {OTHER}")
    await client.succeeded(fork["id"])
    heard = world.model.about("<fork> ")[-1].transcript
    places = [heard.find(text) for text in ("<first> ", "first said", "<second> ", "<fork> ")]
    assert places == sorted(places)
    assert -1 not in places
    assert "<third> " not in heard

    again = await forked(client, fork["id"], 2, input=f"<again> {OTHER}")
    await client.succeeded(again["id"])
    heard = world.model.about("<again> ")[-1].transcript
    places = [heard.find(text) for text in ("<first> ", "<second> ", "<fork> ", "<again> ")]
    assert places == sorted(places)
    assert -1 not in places
    later = await client.submit(say("x"), preface="<later> ", session=fork["session"])
    await client.succeeded(later["id"])
    heard = world.model.about("<later> ")[-1].transcript
    assert ["<first> " in heard, "<third> " in heard, "<again> " in heard] == [True, False, False]
    assert world.effects.count("talk") == 3


async def test_a_fork_hears_what_its_source_was_told_on_the_way(
    world: World, client: Client
) -> None:
    gate = world.gate("on-the-way:before")
    run = await client.submit(use("count", name="on-the-way"), say("heard"), preface="<told> ")
    await gate.reached()
    await client.send(run["id"], "turn left")
    gate.open()
    await client.succeeded(run["id"])
    for turn, times in ((1, 0), (2, 1)):
        fork = await forked(client, run["id"], turn, input=f"<told-{turn}> {OTHER}")
        await client.succeeded(fork["id"])
        heard = world.model.about(f"<told-{turn}> ")[-1]
        assert heard.texts.count("turn left") == times


async def test_a_fork_takes_a_childs_result_and_starts_no_child(
    world: World, client: Client
) -> None:
    run = await client.submit(
        give(use("count", name="grafted"), say("child said")), say("x"), preface="<graft> "
    )
    await client.succeeded(run["id"])
    fork = await forked(client, run["id"], 1)
    ended = await client.succeeded(fork["id"])
    assert (ended["children"], ended["effects"]) == ([], [])
    assert "child said" in str(world.model.about("<graft> ")[-1].last_results)
    assert world.effects.count("grafted") == 1

    child = await client.child(run["id"])
    own = await forked(client, child["id"], 1, input=OTHER)
    assert (own["parent"], own["root"]) == (None, own["id"])
    await client.succeeded(own["id"])
    assert world.effects.count("grafted") == 1


async def test_a_fork_undoes_only_what_it_did_itself(world: World, client: Client) -> None:
    run = await client.submit(use("book", name="theirs"), say("booked"))
    await client.succeeded(run["id"])
    steps = script(use("book", name="mine"), use("refund", ref="undone"), say("x"))
    fork = await forked(client, run["id"], 1, input=steps)
    await client.open_wait(fork["id"])
    await client.compensate(fork["id"])
    ended = await client.wait_for(fork["id"], "cancelled")
    assert [effect["effect"] for effect in ended["effects"]] == ["compensated"]
    assert [world.effects.count(f"unbook-{name}") for name in ("theirs", "mine")] == [0, 1]


async def test_shared_turns_count_against_the_limits_of_a_fork(client: Client) -> None:
    run = await source(client, "limits", limits={"turns": 4})
    fork = await forked(client, run, 3, input=script(use("count", name="over"), say("x")))
    failed = await client.wait_for(fork["id"], "failed")
    assert (failed["reason"], failed["limits_left"]) == ("limit_turns", {"turns": 0})
    assert (await client.resume(fork["id"], turns=9)).status_code == 202
    await client.succeeded(fork["id"])
