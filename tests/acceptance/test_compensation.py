"""What succeeded is undone in reverse order, by calls of their own, while its run is cancelled."""

import asyncio
from typing import Any

import pytest

from tests.support.client import Client, Json
from tests.support.deployment import Deployment
from tests.support.inspection import notes
from tests.support.scripts import Step, give, say, together, use
from tests.support.world import World

pytestmark = pytest.mark.calm

ASK = use("refund", ref="never")  # it waits for an approval


async def parked(client: Client, *steps: Step, **fields: Any) -> str:
    """A run that has done its steps, and asks a person."""
    run = await client.submit(*steps, ASK, say("never"), **fields)
    await client.open_wait(run["id"])
    return str(run["id"])


async def cancelled(client: Client, run: str) -> Json:
    assert (await client.compensate(run)).status_code == 202
    return await client.wait_for(run, "cancelled")


def effects(run: Json) -> list[str]:
    return [effect["effect"] for effect in run["effects"]]


async def undos(client: Client, run: str) -> list[Json]:
    """The calls that undo others, in the order in which they were made."""
    return [call for call in await client.calls(run) if call["compensates"]]


def seen(world: World, *names: str) -> list[str]:
    """Which of these effects the world saw, in order."""
    return [name for name, _ in world.effects.seen if name in names]


async def test_a_denial_undoes_what_was_done(world: World, client: Client) -> None:
    steps = (use("book", name="a"), use("book_once", name="b"), use("book_tx", name="c"))
    run = await client.submit(*steps, use("book_asked", name="d"), say("x"), agent="saga")
    await client.deny((await client.open_wait(run["id"]))["id"])
    ended = await client.wait_for(run["id"], "cancelled")
    assert effects(ended) == ["compensated"] * 3
    types = await client.event_types(run["id"])
    assert types.count("compensation.succeeded") == 3
    cancelling = next(e for e in await client.events(run["id"]) if e["type"] == "run.cancelling")
    assert (cancelling["data"]["reason"], cancelling["data"]["compensate"]) == ("denied", True)


async def test_undoing_goes_backwards_with_one_key_for_each_undo(
    world: World, client: Client, deployment: Deployment
) -> None:
    run = await parked(
        client,
        use("book", name="first"),
        together(use("book", name="second"), use("book_once", name="third")),
        use("book_tx", name="fourth"),
        use("count", name="not-undone"),
    )
    booked = {call["arguments"].get("name"): call for call in await client.calls(run)}
    ended = await cancelled(client, run)
    names = ["unnote-fourth", "unbook-third", "unbook-second", "unbook-first"]
    assert seen(world, *names) == names
    assert effects(ended) == ["compensated"] * 4 + ["confirmed"]
    assert notes(deployment.database_url, run) == ["fourth", "undone fourth"]

    made = await undos(client, run)
    assert [undo["compensates"] for undo in made] == [
        booked[name]["id"] for name in ("fourth", "third", "second", "first")
    ]
    assert [undo["idempotency_key"] for undo in made] == [f"{run}/6/{n}" for n in range(4)]
    for undo, name in zip(made[1:], ("third", "second", "first"), strict=True):
        (done,) = world.effects.details(f"unbook-{name}")
        assert done["key"] == undo["idempotency_key"]
        assert done["undone"] == booked[name]["idempotency_key"]
        assert done["result"] == booked[name]["result"] == {"booked": name}
    types = [t for t in await client.event_types(run) if t.startswith("compensation.")]
    assert types == ["compensation.started", "compensation.succeeded"] * 4


async def test_a_plain_cancel_undoes_nothing(world: World, client: Client) -> None:
    run = await parked(client, use("book", name="kept"))
    await client.cancel(run)
    ended = await client.wait_for(run, "cancelled")
    assert effects(ended) == ["confirmed"]
    assert await undos(client, run) == []
    late = await client.compensate(run)
    assert (late.status_code, late.json()["type"]) == (409, "/problems/run-ended")
    assert world.effects.count("unbook-kept") == 0


async def test_a_run_that_did_nothing_is_cancelled_in_the_answer(client: Client) -> None:
    run = await parked(client, session="idle")
    held = await client.submit(say("x"), session="idle")
    for each in (held["id"], run):
        answer = await client.compensate(each)
        assert (answer.status_code, answer.json()["status"]) == (202, "cancelled")
        assert await undos(client, each) == []


async def test_what_a_run_that_succeeded_has_done_stays(world: World, client: Client) -> None:
    run = await client.submit(use("book", name="over"), say("booked"))
    await client.succeeded(run["id"])
    assert (await client.compensate(run["id"])).status_code == 409
    assert effects(await client.run(run["id"])) == ["confirmed"]
    assert world.effects.count("unbook-over") == 0


async def test_a_body_that_cannot_be_stopped_ends_and_is_undone_first(
    world: World, client: Client
) -> None:
    gate = world.gate("book-sync:before")
    run = await client.submit(use("book", name="early"), use("book_sync", name="sync"), say("x"))
    await gate.reached()
    await client.compensate(run["id"])
    await asyncio.sleep(1)  # a worker looks for cancels each half second
    assert (await client.run(run["id"]))["status"] == "cancelling"
    assert seen(world, "unbook-early") == []
    gate.open()
    ended = await client.wait_for(run["id"], "cancelled")
    assert effects(ended) == ["compensated"] * 2
    assert seen(world, "unbook-sync", "unbook-early") == ["unbook-sync", "unbook-early"]


async def test_a_body_that_was_stopped_is_unknown_and_not_undone(
    world: World, client: Client
) -> None:
    gate = world.gate("book-stopped:before")
    run = await client.submit(use("book", name="before"), use("book", name="stopped"), say("x"))
    await gate.reached()
    ended = await cancelled(client, run["id"])
    assert effects(ended) == ["compensated", "unknown"]
    assert seen(world, "unbook-before", "unbook-stopped") == ["unbook-before"]


@pytest.mark.parametrize("again", ["cancel", "compensate"])
async def test_a_second_cancel_while_undoing_changes_nothing(
    world: World, client: Client, again: str
) -> None:
    gate = world.gate(f"unbook-{again}:before")
    run = await parked(client, use("book", name=again))
    await client.compensate(run)
    await gate.reached()
    answer = await (client.cancel(run) if again == "cancel" else client.compensate(run))
    assert (answer.status_code, answer.json()["status"]) == (202, "cancelling")
    await asyncio.sleep(1)  # a worker looks for cancels each half second
    gate.open()
    ended = await client.wait_for(run, "cancelled")
    assert effects(ended) == ["compensated"]
    assert world.effects.count(f"unbook-{again}") == 1
    types = await client.event_types(run)
    assert (types.count("run.cancelling"), types.count("compensation.started")) == (1, 1)


async def test_a_cancel_may_be_told_to_undo_while_it_waits_for_a_body(
    world: World, client: Client
) -> None:
    gate = world.gate("busy:before")
    run = await client.submit(use("book", name="late"), use("count_sync", name="busy"), say("x"))
    await gate.reached()
    await client.cancel(run["id"])
    await client.compensate(run["id"])
    gate.open()
    ended = await client.wait_for(run["id"], "cancelled")
    assert effects(ended) == ["compensated", "confirmed"]


@pytest.mark.parametrize(("body", "left"), [("count", "unknown"), ("count_sync", "confirmed")])
async def test_a_denial_beside_a_body_at_work_undoes_once_that_has_ended(
    world: World, client: Client, body: str, left: str
) -> None:
    name = f"beside-{body}"
    gate = world.gate(f"{name}:after")
    run = await client.submit(
        use("book", name=name),
        together(use("book_asked", name="asked"), use(body, name=name)),
        say("never"),
        agent="saga",
    )
    await gate.reached()
    wait = await client.wait_of(run["id"])
    await client.deny(wait["id"])
    await asyncio.sleep(1)  # a worker looks for cancels each half second
    assert world.effects.count(f"unbook-{name}") == (body == "count")
    gate.open()
    ended = await client.wait_for(run["id"], "cancelled")
    assert effects(ended) == ["compensated", left]
    assert world.effects.count(f"unbook-{name}") == 1


async def test_children_undo_theirs_before_their_parent_does(world: World, client: Client) -> None:
    child = give(use("book", name="child"), ASK, say("x"))
    over = give(use("book", name="over-child"), say("booked"))
    run = await client.submit(use("book", name="parent"), over, child, say("never"))
    await client.descendants_waits(run["id"], "approval")
    root = await cancelled(client, run["id"])
    assert effects(root) == ["compensated"]
    ended, undone = await client.children(run["id"], 2)
    assert (ended["status"], effects(ended)) == ("succeeded", ["confirmed"])
    assert (undone["status"], effects(undone)) == ("cancelled", ["compensated"])
    names = ["unbook-child", "unbook-parent", "unbook-over-child"]
    assert seen(world, *names) == names[:2]


async def test_a_denial_in_a_child_undoes_what_the_child_did_and_its_parent_goes_on(
    world: World, client: Client
) -> None:
    child = give(use("book", name="denied-child"), use("book_asked", name="x"), agent="saga")
    run = await client.submit(use("book", name="denied-parent"), child, say("without it"))
    (wait,) = await client.descendants_waits(run["id"], "approval")
    await client.deny(wait["id"])
    parent = await client.succeeded(run["id"])
    assert (parent["output"]["text"], effects(parent)) == ("without it", ["confirmed"])
    ended = await client.child(run["id"])
    assert (ended["status"], effects(ended)) == ("cancelled", ["compensated"])


async def test_what_a_client_did_is_undone_with_the_result_it_posted(
    world: World, client: Client
) -> None:
    run = await client.submit(use("book_by_client", name="posted"), ASK, say("never"))
    wait = await client.open_wait(run["id"], kind="external")
    assert (await client.resolve(wait["id"], {"result": {"seat": 7}})).status_code == 200
    await client.open_wait(run["id"])
    assert effects(await cancelled(client, run["id"])) == ["compensated"]
    (done,) = world.effects.details("unbook-posted")
    assert (done["result"], done["undone"]) == ({"seat": 7}, f"{run['id']}/1/0")


@pytest.mark.parametrize(
    ("tool", "attempts", "left"),
    [
        ("book_tx_for_good", 2, "confirmed"),
        ("book_for_good", 2, "unknown"),
        ("book_too_late", 1, "confirmed"),
    ],
)
async def test_an_undo_that_fails_is_tried_again_as_its_tool_allows_and_told(
    world: World, client: Client, tool: str, attempts: int, left: str
) -> None:
    run = await parked(client, use("book", name=f"before-{tool}"), use(tool, name=tool))
    assert (await client.compensate(run)).status_code == 202
    ended = await client.wait_for(run, "cancelled")
    assert effects(ended) == ["compensated", left]
    assert world.effects.count(f"cannot-{tool}") == attempts
    assert len({effect["key"] for effect in world.effects.details(f"cannot-{tool}")}) == 1
    failing = (await undos(client, run))[0]
    assert [attempt["attempt"] for attempt in failing["history"]] == [*range(1, attempts + 1)]
    pauses = await client.waits(run, kind="timer")
    assert [(wait["call"], wait["state"]) for wait in pauses] == [(failing["id"], "resolved")] * (
        attempts - 1
    )
    types = await client.event_types(run)
    assert (types.count("compensation.failed"), types.count("compensation.succeeded")) == (1, 1)
    between = types[types.index("compensation.started") : types.index("compensation.failed")]
    assert "run.waiting" not in between
    assert await client.waits(run, kind="outcome") == []


async def test_an_undo_that_nobody_knows_the_end_of_can_be_settled_later(
    world: World, client: Client
) -> None:
    run = await parked(client, use("book_for_good", name="settled"))
    assert effects(await cancelled(client, run)) == ["unknown"]
    (undo,) = await undos(client, run)
    happened: Json = {"outcome": "happened", "result": {}}
    assert (await client.settle(undo["id"], happened)).status_code == 200
    assert effects(await client.run(run)) == ["compensated"]
    assert world.effects.count("cannot-settled") == 2


async def test_a_run_shows_that_it_waits_to_try_an_undo_again(world: World, client: Client) -> None:
    gate = world.gate("cannot-shown:before", nth=2)
    run = await parked(client, use("book_tx_for_good", name="shown"))
    await client.compensate(run)
    (wait,) = await client.descendants_waits(run, "timer")
    assert (await client.run(run))["status"] == "cancelling"
    (undo,) = await undos(client, run)
    assert (wait["call"], undo["state"]) == (undo["id"], "ready")
    await gate.reached()
    gate.open()
    await client.wait_for(run, "cancelled")
