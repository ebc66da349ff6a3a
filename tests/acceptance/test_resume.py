"""A run that was stopped goes on from where it was, and repeats nothing."""

import asyncio

import pytest

from tests.support.client import Client, Json
from tests.support.scripts import Step, by_attempt, give, refuse, say, together, use, with_usage
from tests.support.world import World

pytestmark = pytest.mark.calm

FREE = {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
# What stops a run, and what lets it go on.
LIMITS: dict[str, tuple[object, object]] = {
    "turns": (1, 5),
    "tokens": (400, None),
    "cost_usd": ("0.1", "5"),
    "calls": (2, 5),
    "seconds": (1, 100),
}
REASONS = {"cost_usd": "limit_cost"}


def stopping(limit: str, mark: str) -> list[Step]:
    """Two steps; the limit stops the run between them."""
    first = use("nap", seconds=1.2) if limit == "seconds" else use("count", name=f"{mark}-nap")
    costly = {"input_tokens": 100_000 if limit == "cost_usd" else 500, "output_tokens": 0, **FREE}
    return [
        with_usage(together(use("count", name=f"{mark}-a"), first), **costly),
        together(use("count", name=f"{mark}-b"), use("pay_once", ref=f"{mark}-c")),
        say("done"),
    ]


def assert_nothing_twice(world: World, mark: str) -> None:
    assert [world.effects.count(f"{mark}-{name}") for name in "ab"] == [1, 1]
    assert len(world.payments.calls_for(f"{mark}-c")) == 1
    assert world.model.steps(f"<{mark}> ") == [0, 1, 2]


@pytest.mark.parametrize("limit", LIMITS)
async def test_a_run_that_a_limit_stopped_goes_on_once_that_is_raised(
    world: World, client: Client, limit: str
) -> None:
    low, high = LIMITS[limit]
    run = await client.submit(*stopping(limit, limit), limits={limit: low}, preface=f"<{limit}> ")
    failed = await client.wait_for(run["id"], "failed")
    assert failed["reason"] == REASONS.get(limit, f"limit_{limit}")

    for limits in ({}, {limit: low}):
        refused = await client.resume(run["id"], **limits)
        assert (refused.status_code, refused.json()["type"]) == (409, "/problems/not-resumable")
        assert repr(limit) in refused.json()["detail"]
    assert await client.run(run["id"]) == failed

    resumed = await client.resume(run["id"], **{limit: high})
    assert resumed.status_code == 202
    shown = resumed.json()
    assert (shown["reason"], shown["error"], shown["finished_at"]) == (None, None, None)
    assert shown["limits"] == failed["limits"] | {limit: high}
    ended = await client.succeeded(run["id"])
    assert_nothing_twice(world, limit)
    assert ended["turns"] == 3
    types = await client.event_types(run["id"])
    assert (types.count("run.failed"), types.count("run.succeeded")) == (1, 1)
    assert types.count("call.succeeded") == 4


async def test_a_run_whose_model_failed_asks_it_again(world: World, client: Client) -> None:
    run = await client.submit(
        use("count", name="model"), by_attempt(refuse(400), say("at last")), preface="<model> "
    )
    failed = await client.wait_for(run["id"], "failed")
    assert failed["reason"] == "model_error"
    assert (await client.resume(run["id"])).status_code == 202
    ended = await client.succeeded(run["id"])
    assert ended["output"]["text"] == "at last"
    assert world.model.statuses("<model> ") == [200, 400, 200]
    assert world.effects.count("model") == 1
    assert [turn["attempts"] for turn in await client.turns(run["id"])] == [1, 2]


async def test_a_message_that_an_ended_run_had_not_heard_is_heard_after_it_goes_on(
    world: World, client: Client
) -> None:
    gate = world.gate("deaf:before")
    run = await client.submit(
        use("count", name="deaf"), say("heard"), limits={"turns": 1}, preface="<deaf> "
    )
    await gate.reached()
    assert (await client.send(run["id"], "mind the gap")).status_code == 202
    gate.open()
    await client.wait_for(run["id"], "failed")
    assert [m["state"] for m in await client.messages(run["id"])] == ["undelivered"]
    assert (await client.send(run["id"], "too late")).status_code == 409
    assert (await client.resume(run["id"], turns=2)).status_code == 202
    await client.succeeded(run["id"])
    requests = world.model.about("<deaf> ")
    assert [request.texts.count("mind the gap") for request in requests] == [0, 1]
    assert [m["state"] for m in await client.messages(run["id"])] == ["delivered"]


async def test_a_message_that_a_failed_model_call_took_along_is_not_lost(
    world: World, client: Client
) -> None:
    gate = world.gate("taken:before")
    run = await client.submit(
        use("count", name="taken"), by_attempt(refuse(400), say("heard")), preface="<taken> "
    )
    await gate.reached()
    await client.send(run["id"], "mind the step")
    gate.open()
    await client.wait_for(run["id"], "failed")
    assert [m["state"] for m in await client.messages(run["id"])] == ["undelivered"]
    assert (await client.resume(run["id"])).status_code == 202
    await client.succeeded(run["id"])
    requests = world.model.about("<taken> ")
    assert [request.texts.count("mind the step") for request in requests] == [0, 1, 1]
    assert [m["state"] for m in await client.messages(run["id"])] == ["delivered"]


async def test_calls_that_a_limit_kept_from_running_are_asked_about_as_ever(
    world: World, client: Client
) -> None:
    refunds = together(use("refund", ref="asked-1"), use("refund", ref="asked-2"))
    run = await client.submit(refunds, say("done"), limits={"calls": 1}, preface="<asked> ")
    await client.wait_for(run["id"], "failed")
    assert await client.waits(run["id"]) == []
    assert [call["state"] for call in await client.calls(run["id"])] == ["cancelled"] * 2
    assert (await client.resume(run["id"], calls=2)).status_code == 202
    one, two = await client.open_waits(run["id"], count=2)
    await client.allow(one["id"])
    await client.deny(two["id"])
    await client.succeeded(run["id"])
    assert [len(world.payments.rows_for(f"asked-{n}")) for n in (1, 2)] == [1, 0]
    assert world.model.steps("<asked> ") == [0, 1]


async def test_of_many_that_resume_a_run_at_once_one_does(world: World, client: Client) -> None:
    run = await client.submit(*stopping("turns", "many"), limits={"turns": 1}, preface="<many> ")
    await client.wait_for(run["id"], "failed")
    answers = await asyncio.gather(*(client.resume(run["id"], turns=5) for _ in range(6)))
    assert sorted(answer.status_code for answer in answers) == [202] + [409] * 5
    await client.succeeded(run["id"])
    assert_nothing_twice(world, "many")


async def test_a_run_is_stopped_and_resumed_as_often_as_its_limit_is_raised_too_little(
    world: World, client: Client
) -> None:
    run = await client.submit(*stopping("turns", "often"), limits={"turns": 1}, preface="<often> ")
    for turns in (2, 3):
        assert (await client.ended(run["id"]))["reason"] == "limit_turns"
        assert (await client.resume(run["id"], turns=turns)).status_code == 202
    await client.succeeded(run["id"])
    assert_nothing_twice(world, "often")
    types = await client.event_types(run["id"])
    assert (types.count("run.failed"), types.count("run.succeeded")) == (2, 1)


async def test_a_session_that_went_on_is_busy_until_it_is_free_and_hears_nothing_of_later(
    world: World, client: Client
) -> None:
    stopped = await client.submit(
        use("count", name="older"), say("old"), limits={"turns": 1}, preface="<old> ", session="on"
    )
    await client.wait_for(stopped["id"], "failed")
    later = await client.submit(use("refund", ref="on"), say("new"), preface="<new> ", session="on")
    wait = await client.open_wait(later["id"])
    busy = await client.resume(stopped["id"], turns=2)
    assert (busy.status_code, busy.json()["type"]) == (409, "/problems/target-busy")
    await client.allow(wait["id"])
    await client.succeeded(later["id"])
    assert (await client.resume(stopped["id"], turns=2)).status_code == 202
    held = await client.submit(say("held"), session="on")
    await client.succeeded(stopped["id"])
    await client.succeeded(held["id"])
    requests = [r for r in world.model.about("<old> ") if "<new> " not in r.transcript]
    assert [request.step for request in requests] == [0, 1]
    assert 400 not in world.model.statuses("<old> ")
    assert world.effects.count("older") == 1


async def test_what_was_not_stopped_is_not_resumed(client: Client) -> None:
    over = await client.submit(say("over"))
    await client.succeeded(over["id"])
    parked = await client.submit(use("refund", ref="resume"), say("x"))
    await client.open_wait(parked["id"])
    gone = await client.submit(use("refund", ref="resume"), say("x"))
    await client.cancel(gone["id"])
    await client.wait_for(gone["id"], "cancelled")
    for run in (over, parked, gone):
        before = await client.run(run["id"])
        refused = await client.resume(run["id"], turns=200)
        assert (refused.status_code, refused.json()["type"]) == (409, "/problems/not-resumable")
        assert await client.run(run["id"]) == before
    await client.cancel(parked["id"])


async def test_a_parent_goes_on_without_the_child_that_its_own_limit_stopped(
    world: World, client: Client
) -> None:
    child = give(use("count", name="branch"), use("count", name="branch"), say("x"))
    run = await client.submit(
        child, use("count", name="trunk"), say("done"), limits={"turns": 3}, preface="<trunk> "
    )
    await client.wait_for(run["id"], "failed")
    (_, stopped) = await client.tree(run["id"])
    taken = await client.resume(stopped["id"], turns=50)
    assert (taken.status_code, taken.json()["type"]) == (409, "/problems/run-ended")
    assert (await client.resume(run["id"], turns=5)).status_code == 202
    ended = await client.succeeded(run["id"])
    told: list[Json] = world.model.about("<trunk> ")[-2].last_results
    assert "limit_turns" in str(told)
    assert (ended["turns"], ended["children"]) == (3, [stopped["id"]])
    assert [world.effects.count(name) for name in ("branch", "trunk")] == [2, 1]


async def test_a_resumed_run_can_be_cancelled(world: World, client: Client) -> None:
    run = await client.submit(
        use("count", name="again"), use("refund", ref="again"), say("x"), limits={"turns": 1}
    )
    await client.wait_for(run["id"], "failed")
    await client.resume(run["id"], turns=5)
    await client.open_wait(run["id"])
    assert (await client.cancel(run["id"])).json()["status"] == "cancelled"
    types = await client.event_types(run["id"])
    assert [t for t in types if t in ("run.failed", "run.cancelled")] == [
        "run.failed",
        "run.cancelled",
    ]
    assert world.payments.calls_for("again") == []
