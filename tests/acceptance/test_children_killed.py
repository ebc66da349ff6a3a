"""kill -9 in every window between a run and its child: one child, one result, nothing repeated."""

import pytest

from tests.support.client import Client, Json
from tests.support.deployment import Deployment
from tests.support.sabotage import HeldEvent, held_commit
from tests.support.sampling import sampled
from tests.support.scripts import give, say, together, use
from tests.support.world import World

pytestmark = pytest.mark.mended

ENDS = ["rolled_back", "committed"]
VICTIMS = ["worker", "everything"]


async def delegating(client: Client, mark: str) -> Json:
    """A run whose child counts once, and says so."""
    child = give(use("count", name=mark), say("counted"), preface=f"<child of {mark}> ")
    return await client.submit(child, say("done"), preface=f"<{mark}> ")


async def kill(deployment: Deployment, victim: str) -> None:
    """kill -9, then the same commands again."""
    if victim == "everything":
        await deployment.restart()
    else:
        await deployment.crash()


async def kill_in_commit(deployment: Deployment, commit: HeldEvent, victim: str, how: str) -> None:
    await commit.reached()
    deployment.kill9()
    if victim == "everything":
        deployment.kill9_api()
    commit.end(how)


async def start_again(deployment: Deployment, victim: str) -> None:
    if victim == "everything":
        await deployment.restart_api()
    await deployment.start_worker()


async def assert_done_once(world: World, client: Client, run: str, mark: str) -> None:
    parent = await client.succeeded(run)
    child = await client.child(run)
    assert (child["status"], parent["children"]) == ("succeeded", [child["id"]])
    call = await client.call(run)
    assert call["result"] == {"run": child["id"], "text": "counted"}
    counted = world.effects.details(mark)
    assert {effect["key"] for effect in counted} == {f"{child['id']}/1/0"}
    assert len(counted) == 1
    (result,) = world.model.about(f"<{mark}> ")[-1].last_results
    assert not result.get("is_error")
    waits = await client.waits(run)
    assert [(wait["kind"], wait["state"]) for wait in waits] == [("child", "resolved")]
    assert waits[0]["resolved_by"] == child["id"]
    for member in (run, child["id"]):
        assert (await client.event_types(member)).count("run.succeeded") == 1
        assert await client.strandings(member) == []


@pytest.mark.parametrize("victim", VICTIMS)
async def test_kill_while_children_work_settles_each_by_its_own_policy(
    world: World, client: Client, deployment: Deployment, victim: str
) -> None:
    idem, once = f"idem-{victim}", f"once-{victim}"
    gate = world.gate("pay:after", span=2)
    run = await client.submit(
        together(
            give(use("pay_idem", ref=idem), say("paid")),
            give(use("pay_once", ref=once), say("it may be paid")),
        ),
        say("done"),
        preface=f"<{victim}> ",
    )
    await gate.reached(holding=2)
    await kill(deployment, victim)
    await client.succeeded(run["id"])
    assert len(world.payments.rows_for(idem)) == 1
    assert len({call.key for call in world.payments.calls_for(idem)}) == 1
    assert len(world.payments.calls_for(once)) == 1
    paid, maybe = world.model.about(f"<{victim}> ")[-1].last_results
    assert ("paid" in str(paid["content"]), "may be" in str(maybe["content"])) == (True, True)
    tree = await client.tree(run["id"])
    effects = sorted(effect["effect"] for member in tree for effect in member["effects"])
    assert effects == ["confirmed", "unknown"]
    assert world.model.steps(f"<{victim}> ") == [0, 1]


@pytest.mark.parametrize(("victim", "how"), sampled(VICTIMS, ENDS))
async def test_kill_in_the_commit_of_a_childs_start_starts_one_child(
    world: World, client: Client, deployment: Deployment, victim: str, how: str
) -> None:
    mark = f"start-{victim}-{how}"
    model = world.gate("llm:0")
    run = await delegating(client, mark)
    await model.reached()
    with held_commit(deployment.database_url, "run.queued") as commit:
        model.open()
        await kill_in_commit(deployment, commit, victim, how)
    await start_again(deployment, victim)
    await assert_done_once(world, client, run["id"], mark)


@pytest.mark.parametrize("how", ENDS)
async def test_kill_in_the_commit_of_a_parents_park_loses_no_child(
    world: World, client: Client, deployment: Deployment, how: str
) -> None:
    mark = f"park-{how}"
    gate = world.gate(f"{mark}:before")
    with held_commit(deployment.database_url, "run.waiting") as commit:
        run = await delegating(client, mark)
        await gate.reached()
        await kill_in_commit(deployment, commit, "worker", how)
    await start_again(deployment, "worker")
    await assert_done_once(world, client, run["id"], mark)


@pytest.mark.parametrize(("victim", "how"), sampled(VICTIMS, ENDS))
async def test_kill_in_the_commit_of_a_childs_end_tells_its_parent_once(
    world: World, client: Client, deployment: Deployment, victim: str, how: str
) -> None:
    mark = f"end-{victim}-{how}"
    with held_commit(deployment.database_url, "run.succeeded") as commit:
        run = await delegating(client, mark)
        await kill_in_commit(deployment, commit, victim, how)
    await start_again(deployment, victim)
    await assert_done_once(world, client, run["id"], mark)


@pytest.mark.parametrize("victim", VICTIMS)
async def test_kill_when_a_child_has_ended_and_its_parent_goes_on_repeats_neither(
    world: World, client: Client, deployment: Deployment, victim: str
) -> None:
    mark = f"after-{victim}"
    run = await client.submit(
        give(use("count", name=mark), say("counted")),
        say("done"),
        preface=f"<{mark}> ",
    )
    child = await client.child(run["id"])
    gate = world.gate("llm:1", nth=2)
    await gate.reached()
    assert (await client.run(child["id"]))["status"] == "succeeded"
    await kill(deployment, victim)
    await assert_done_once(world, client, run["id"], mark)
    assert world.model.steps(f"<{mark}> ") == [0, 1, 1]


async def test_a_worker_that_takes_a_tree_over_repeats_nothing(
    world: World, client: Client, deployment: Deployment
) -> None:
    gate = world.gate("taken:after")
    run = await delegating(client, "taken")
    await gate.reached()
    child = await client.child(run["id"])
    await deployment.start_worker()
    deployment.kill9(deployment.worker_named(child["worker"]))
    await client.succeeded(run["id"], within=15)
    assert len({effect["key"] for effect in world.effects.details("taken")}) == 1
    assert "run.taken_over" in await client.event_types(child["id"])
    assert "run.taken_over" not in await client.event_types(run["id"])
