"""A cancel reaches all that was started below a run, and nothing starts or ends unseen."""

import asyncio
import os

import pytest

from tests.support.client import Client, Json
from tests.support.deployment import Deployment
from tests.support.sabotage import awaited_row, held_commit
from tests.support.scripts import give, say, together, use
from tests.support.world import World

TRIES = 60 if os.environ.get("PERDURE_TEST_FULL") == "1" else 12
TOGETHER = 4


async def assert_all_cancelled(client: Client, run: str, members: int) -> list[Json]:
    await client.wait_for(run, "cancelled")
    tree = await client.tree(run)
    assert [member["status"] for member in tree] == ["cancelled"] * members
    assert [member["waiting_for"] for member in tree] == [[]] * members
    return tree


@pytest.mark.calm
@pytest.mark.case("B57")
async def test_a_cancel_ends_a_parked_tree_in_its_answer(world: World, client: Client) -> None:
    run = await client.submit(
        together(
            give(give(use("refund", ref="grandchild"), say("x")), say("x")),
            give(use("sleep_for", seconds=3600), say("x")),
        ),
        say("never"),
    )
    await client.descendants_waits(run["id"], "approval")
    await client.descendants_waits(run["id"], "timer")
    await client.descendants_waits(run["id"], "child", count=3)
    answer = await client.cancel(run["id"])
    assert (answer.status_code, answer.json()["status"]) == (202, "cancelled")
    await assert_all_cancelled(client, run["id"], 4)
    assert world.payments.calls_for("grandchild") == []


@pytest.mark.calm
async def test_a_parent_is_cancelling_until_the_body_of_its_child_has_ended(
    world: World, client: Client
) -> None:
    gate = world.gate("unstoppable:before")
    run = await client.submit(
        give(give(use("count_sync", name="unstoppable"), say("x")), say("x")),
        say("never"),
        preface="<cancelling> ",
    )
    await gate.reached()
    await client.cancel(run["id"])
    await asyncio.sleep(1)  # a worker looks for cancels each half second
    tree = await client.tree(run["id"])
    assert [member["status"] for member in tree] == ["cancelling"] * 3
    below = [wait["run"] for wait in tree[0]["waiting_for"] if wait["kind"] == "child"]
    assert below == [tree[0]["id"], tree[1]["id"]]
    gate.open()
    await assert_all_cancelled(client, run["id"], 3)
    assert world.effects.count("unstoppable") == 1
    assert (await client.call(tree[2]["id"]))["state"] == "succeeded"
    assert world.model.steps("<cancelling> ") == [0]


@pytest.mark.mended
@pytest.mark.parametrize("window", ["before", "after"])
async def test_kill_while_a_tree_is_cancelling_ends_it_with_what_is_unknown(
    world: World, client: Client, deployment: Deployment, window: str
) -> None:
    name = f"killed-{window}"
    gate = world.gate(f"{name}:{window}")
    run = await client.submit(give(use("count_sync", name=name), say("x")), say("never"))
    await gate.reached()
    await client.cancel(run["id"])
    deployment.kill9()
    assert (await client.run(run["id"]))["status"] == "cancelling"
    await deployment.start_worker()
    _, child = await assert_all_cancelled(client, run["id"], 2)
    assert [effect["effect"] for effect in child["effects"]] == ["unknown"]
    assert world.effects.count(name) == (window == "after")
    types = await client.event_types(run["id"])
    assert (types.count("run.cancelling"), types.count("run.cancelled")) == (1, 1)
    assert await client.strandings(run["id"]) == []


@pytest.mark.calm
@pytest.mark.case("B57")
async def test_a_cancel_that_meets_the_start_of_a_child_ends_them_both(
    world: World, client: Client, deployment: Deployment
) -> None:
    model = world.gate("llm:0")
    run = await client.submit(give(use("count", name="spawning"), say("x")), say("never"))
    await model.reached()
    with held_commit(deployment.database_url, "run.queued") as spawn:
        model.open()
        await spawn.reached()
        cancel = asyncio.create_task(client.cancel(run["id"]))
        await awaited_row(deployment.database_url)
        spawn.release()
        assert (await cancel).status_code == 202
    await assert_all_cancelled(client, run["id"], 2)
    assert world.effects.count("spawning") == 0


@pytest.mark.calm
@pytest.mark.case("B57")
async def test_no_child_is_started_by_a_run_whose_cancel_comes_first(
    world: World, client: Client, deployment: Deployment
) -> None:
    """The cancel is in its commit while the worker, which does not see it, starts the child."""
    url = deployment.database_url
    model = world.gate("llm:0")
    run = await client.submit(give(use("count", name="unborn"), say("x")), say("never"))
    await model.reached()
    with held_commit(url, "model.completed") as answer, held_commit(url, "run.cancelling") as end:
        model.open()
        await answer.reached()
        cancel = asyncio.create_task(client.cancel(run["id"]))
        await awaited_row(url)
        answer.release()
        await end.reached()
        await awaited_row(url)
        end.release()
        assert (await cancel).status_code == 202
    await assert_all_cancelled(client, run["id"], 1)
    assert world.effects.count("unborn") == 0


@pytest.mark.calm
@pytest.mark.case("B57")
async def test_a_cancel_at_any_moment_of_a_growing_tree_leaves_nothing_acting(
    world: World, client: Client
) -> None:
    async def attempt(nth: int) -> None:
        mark = f"growing-{nth}"
        run = await client.submit(
            together(
                give(use("count", name=mark), give(use("count", name=mark), say("x")), say("x")),
                give(give(use("count", name=mark), say("x")), say("x")),
            ),
            use("count", name=mark),
            say("never"),
        )
        await asyncio.sleep(0.6 * nth / TRIES)
        assert (await client.cancel(run["id"])).status_code in (202, 409)
        await client.ended(run["id"])
        tree = await client.tree(run["id"])
        assert {member["status"] for member in tree} <= {"cancelled", "succeeded"}, mark
        calls = [call for member in tree for call in await client.calls(member["id"])]
        acted = ("succeeded", "outcome_unknown")
        done = [c for c in calls if c["tool"] == "count" and c["state"] in acted]
        begun[mark] = len(done)

    begun: dict[str, int] = {}
    for first in range(0, TRIES, TOGETHER):
        await asyncio.gather(*map(attempt, range(first, first + TOGETHER)))
    later = await client.submit(use("count", name="barrier"), say("alive"))
    await client.succeeded(later["id"])
    assert [mark for mark in begun if world.effects.count(mark) > begun[mark]] == []
