"""A run that is not done by its deadline ends then, wherever it is, unless something still acts."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.support.client import Client, Json
from tests.support.deployment import Deployment
from tests.support.inspection import clock, pass_time
from tests.support.polling import eventually, in_time
from tests.support.scripts import Step, give, refuse, say, use
from tests.support.world import World

AT_MOST_LATE = 1.0  # on a machine that has time
LIFE = 600.0


async def submit_dated(client: Client, deployment: Deployment, *steps: Step, **fields: Any) -> Json:
    """A run that must be done in ten minutes."""
    deadline = clock(deployment.database_url) + timedelta(seconds=LIFE)
    return await client.submit(*steps, deadline=deadline.isoformat(), **fields)


def nearly_over(deployment: Deployment, run: str) -> None:
    """Half a second of the ten minutes is left."""
    pass_time(deployment.database_url, run, LIFE - 0.5)


async def passed(client: Client, deployment: Deployment, run: str) -> None:
    """Returns once the deadline of the run is over."""
    deadline = datetime.fromisoformat((await client.run(run))["deadline"])

    async def probe() -> bool:
        return clock(deployment.database_url) > deadline

    await eventually(probe, f"the deadline of {run} passed")


async def too_late(client: Client, run: str) -> Json:
    """The run once its deadline has ended it; nothing of it is left open."""
    failed = await client.wait_for(run, "failed")
    assert (failed["reason"], failed["error"]["type"]) == ("deadline", "deadline")
    assert failed["waiting_for"] == []
    assert await client.waits(run, state="open") == []
    types = await client.event_types(run)
    assert (types.count("limit.reached"), types[-1]) == (1, "run.failed")
    return failed


def seconds_late(run: Json) -> float:
    finished, deadline = (datetime.fromisoformat(run[at]) for at in ("finished_at", "deadline"))
    return (finished - deadline).total_seconds()


@pytest.mark.calm
@pytest.mark.parametrize("tool", ["refund", "ask_user", "sign", "sleep_for", "model"])
async def test_a_parked_run_ends_at_its_deadline_and_frees_its_session(
    world: World, client: Client, deployment: Deployment, tool: str
) -> None:
    mark = f"parked-{tool}"
    steps: dict[str, Step] = {
        "refund": use("refund", ref=mark),
        "ask_user": use("ask_user", question=mark),
        "sign": use("sign", document=mark),
        "sleep_for": use("sleep_for", seconds=3600),
        "model": refuse(503, retry_after=3000),  # said of one request, not of the provider
    }
    run = await submit_dated(
        client, deployment, steps[tool], say("never"), session=mark, target=mark
    )
    held = await client.submit(say("next"), session=mark)
    kinds = {"refund": "approval", "ask_user": "input", "sign": "external"}
    await client.open_wait(run["id"], kinds.get(tool, "timer"))
    nearly_over(deployment, run["id"])
    ended = await too_late(client, run["id"])
    assert 0 <= seconds_late(ended) < in_time(AT_MOST_LATE)
    await client.succeeded(held["id"])
    (wait,) = await client.waits(run["id"])
    assert wait["state"] == "cancelled"
    if tool == "refund":
        late = await client.resolve(wait["id"], {"decision": "allow"})
        assert (late.status_code, late.json()["type"]) == (410, "/problems/wait-closed")
        assert world.payments.calls_for(mark) == []
    resumed = await client.resume(run["id"])
    assert (resumed.status_code, resumed.json()["type"]) == (409, "/problems/not-resumable")


@pytest.mark.calm
async def test_a_run_that_is_queued_behind_another_ends_at_its_deadline(
    world: World, client: Client, deployment: Deployment
) -> None:
    work = {"session": "behind"}
    holder = await client.submit(use("refund", ref="holder"), say("refunded"), **work)
    held = await submit_dated(client, deployment, use("count", name="behind"), say("x"), **work)
    third = await client.submit(say("third"), **work)
    nearly_over(deployment, held["id"])
    ended = await too_late(client, held["id"])
    assert 0 <= seconds_late(ended) < in_time(AT_MOST_LATE)
    assert (await client.run(third["id"]))["status"] == "queued"
    await client.allow((await client.open_wait(holder["id"]))["id"])
    await client.succeeded(holder["id"])
    await client.succeeded(third["id"])
    assert (world.effects.count("behind"), len(world.payments.rows_for("holder"))) == (0, 1)


@pytest.mark.calm
async def test_a_tree_that_waits_ends_at_its_deadline_from_the_bottom(
    world: World, client: Client, deployment: Deployment
) -> None:
    run = await submit_dated(
        client, deployment, give(give(use("refund", ref="deep"), say("x")), say("x")), say("never")
    )
    await client.descendants_waits(run["id"], "approval")
    nearly_over(deployment, run["id"])
    root = await too_late(client, run["id"])
    tree = await client.tree(run["id"])
    assert [member["reason"] for member in tree] == ["deadline"] * 3
    assert {member["deadline"] for member in tree} == {root["deadline"]}
    assert seconds_late(tree[2]) < in_time(AT_MOST_LATE)
    assert seconds_late(root) < in_time(2 * AT_MOST_LATE)  # each level above takes a leg
    assert world.payments.calls_for("deep") == []


@pytest.mark.calm
@pytest.mark.parametrize("where", ["run", "child"])
async def test_a_body_at_work_is_not_cut_off_by_a_deadline_but_nothing_follows_it(
    world: World, client: Client, deployment: Deployment, where: str
) -> None:
    name = f"working-{where}"
    gate = world.gate(f"{name}:before")
    work = [use("count", name=name), use("count", name=f"{name}-next"), say("never")]
    steps = work if where == "run" else [give(*work), say("never")]
    run = await submit_dated(client, deployment, *steps)
    await gate.reached()
    nearly_over(deployment, run["id"])
    await passed(client, deployment, run["id"])
    assert (await client.run(run["id"]))["status"] == {"run": "running", "child": "waiting"}[where]
    gate.open()
    await too_late(client, run["id"])
    worked = (await client.tree(run["id"]))[-1]
    assert worked["reason"] == "deadline"
    assert [effect["effect"] for effect in worked["effects"]] == ["confirmed"]
    assert (world.effects.count(name), world.effects.count(f"{name}-next")) == (1, 0)


@pytest.mark.calm
async def test_a_cancel_that_is_under_way_at_the_deadline_stays_a_cancel(
    world: World, client: Client, deployment: Deployment
) -> None:
    gate = world.gate("stopping:before")
    run = await submit_dated(
        client, deployment, give(use("count_sync", name="stopping"), say("x")), say("never")
    )
    await gate.reached()
    await client.cancel(run["id"])
    nearly_over(deployment, run["id"])
    await passed(client, deployment, run["id"])
    assert (await client.run(run["id"]))["status"] == "cancelling"
    gate.open()
    await client.wait_for(run["id"], "cancelled")
    assert {member["status"] for member in await client.tree(run["id"])} == {"cancelled"}


@pytest.mark.mended
async def test_deadlines_that_pass_while_nothing_runs_hold_at_the_start(
    world: World, client: Client, deployment: Deployment
) -> None:
    async def dated(*steps: Step, mark: str) -> Json:
        return await submit_dated(client, deployment, *steps, preface=f"<{mark}> ")

    parked = await dated(use("refund", ref="down"), say("x"), mark="parked")
    await client.open_wait(parked["id"])
    tree = await dated(give(use("refund", ref="down"), say("x")), say("x"), mark="tree")
    await client.descendants_waits(tree["id"], "approval")
    gate = world.gate("interrupted:after")
    working = await dated(use("count", name="interrupted"), say("x"), mark="working")
    await gate.reached()
    deployment.kill9()
    queued = await dated(use("count", name="queued"), say("x"), mark="queued")
    for run in (parked, tree, working, queued):
        pass_time(deployment.database_url, run["id"], LIFE)
    deployment.kill9_api()
    await deployment.restart_api()
    await deployment.start_worker()
    for run in (parked, tree, working, queued):
        await too_late(client, run["id"])
    for mark in ("parked", "working"):
        assert world.model.steps(f"<{mark}> ") == [0], mark
    assert world.model.steps("<queued> ") == []
    (call,) = await client.calls(working["id"])
    assert call["state"] == "succeeded"
    assert len({effect["key"] for effect in world.effects.details("interrupted")}) == 1
    assert world.payments.calls_for("down") == []
