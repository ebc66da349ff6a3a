"""kill -9 in every window of an undo, for every promise of the tool that it belongs to."""

import asyncio

import httpx
import pytest

from tests.acceptance.test_compensation import ASK, effects, parked, undos
from tests.support.client import Client
from tests.support.deployment import Deployment
from tests.support.inspection import notes
from tests.support.sabotage import held_commit
from tests.support.scripts import give, say, use
from tests.support.world import World

pytestmark = pytest.mark.mended

POLICIES = {"idempotent": "book", "at_most_once": "book_once", "transactional": "book_tx"}


def hook(policy: str, window: str) -> str:
    """What the world counts of the undo of the call named for policy and window."""
    verb = "unnote" if policy == "transactional" else "unbook"
    return f"{verb}-{policy}-{window}"


async def booked(client: Client, window: str) -> dict[str, str]:
    """One parked run for each policy, with a call to undo."""
    return {
        policy: await parked(client, use(tool, name=f"{policy}-{window}"))
        for policy, tool in POLICIES.items()
    }


async def assert_undone(
    world: World, client: Client, deployment: Deployment, run: str, policy: str, window: str
) -> None:
    """By two attempts under one key, or by one that nobody knows the end of."""
    ended = await client.wait_for(run, "cancelled")
    (undo,) = await undos(client, run)
    reached = world.effects.details(hook(policy, window))
    assert {effect["key"] for effect in reached} <= {undo["idempotency_key"]}
    assert len(reached) == (window != "before") + (policy != "at_most_once")
    if policy == "at_most_once":
        assert (undo["state"], effects(ended)) == ("outcome_unknown", ["unknown"])
        assert undo["attempts"] == 1
    else:
        assert (undo["state"], effects(ended)) == ("succeeded", ["compensated"])
    if policy == "idempotent":
        assert [attempt["attempt"] for attempt in undo["history"]] == [1, 2]
    if policy == "transactional":
        name = f"{policy}-{window}"
        assert notes(deployment.database_url, run) == [name, f"undone {name}"]
    types = await client.event_types(run)
    assert types[-1] == "run.cancelled"
    assert (types.count("run.cancelling"), types.count("run.cancelled")) == (1, 1)
    assert await client.strandings(run) == []


@pytest.mark.parametrize("window", ["before", "after"])
async def test_kill_around_the_effect_of_an_undo_keeps_its_tools_promise(
    world: World, client: Client, deployment: Deployment, window: str
) -> None:
    gates = [world.gate(f"{hook(policy, window)}:{window}") for policy in POLICIES]
    runs = await booked(client, window)
    for run in runs.values():
        assert (await client.compensate(run)).status_code == 202
    for gate in gates:
        await gate.reached()
    await deployment.crash()
    for policy, run in runs.items():
        await assert_undone(world, client, deployment, run, policy, window)


async def kill_in_commit(client: Client, deployment: Deployment, window: str) -> dict[str, str]:
    """The runs whose undos are done, and were to be written down when the worker was killed."""
    runs = await booked(client, window)
    with held_commit(deployment.database_url, "compensation.succeeded") as commit:
        for run in runs.values():
            assert (await client.compensate(run)).status_code == 202
        await commit.reached(holding=3)
        deployment.kill9()
        commit.end(window)
    await deployment.start_worker()
    return runs


async def test_kill_before_the_commit_of_an_undo_keeps_its_tools_promise(
    world: World, client: Client, deployment: Deployment
) -> None:
    for policy, run in (await kill_in_commit(client, deployment, "rolled_back")).items():
        await assert_undone(world, client, deployment, run, policy, "rolled_back")


async def test_kill_after_the_commit_of_an_undo_repeats_none(
    world: World, client: Client, deployment: Deployment
) -> None:
    runs = await kill_in_commit(client, deployment, "committed")
    for policy, run in runs.items():
        ended = await client.wait_for(run, "cancelled")
        assert effects(ended) == ["compensated"]
        assert world.effects.count(hook(policy, "committed")) == 1
        assert await client.strandings(run) == []
        assert (await client.event_types(run)).count("compensation.succeeded") == 1
    written = notes(deployment.database_url, runs["transactional"])
    assert written == ["transactional-committed", "undone transactional-committed"]


@pytest.mark.parametrize("end", ["rolled_back", "committed"])
async def test_kill_in_the_commit_of_a_denial_undoes_after_it_or_asks_again(
    world: World, client: Client, deployment: Deployment, end: str
) -> None:
    name = f"denial-{end}"
    run = await client.submit(
        use("book", name=name), use("book_asked", name="asked"), say("x"), agent="saga"
    )
    wait = await client.open_wait(run["id"])
    with held_commit(deployment.database_url, "wait.resolved") as commit:
        denial = asyncio.create_task(client.resolve(wait["id"], {"decision": "deny"}))
        await commit.reached()
        deployment.kill9_api()
        deployment.kill9()
        commit.end(end)
        with pytest.raises(httpx.TransportError):
            await denial
    await deployment.restart_api()
    if end == "rolled_back":
        assert (await client.run(run["id"]))["status"] == "waiting"
        await client.deny(wait["id"])
    await deployment.start_worker()
    ended = await client.wait_for(run["id"], "cancelled")
    assert effects(ended) == ["compensated"]
    assert world.effects.count(f"unbook-{name}") == 1
    assert (await client.event_types(run["id"])).count("run.cancelling") == 1
    assert await client.strandings(run["id"]) == []


async def test_kill_between_the_undos_of_a_tree_repeats_none(
    world: World, client: Client, deployment: Deployment
) -> None:
    child = give(use("book", name="c1"), use("book", name="c2"), ASK, say("x"))
    run = await client.submit(use("book", name="p1"), child, say("never"))
    await client.descendants_waits(run["id"], "approval")
    between = world.gate("unbook-c1:before")
    await client.compensate(run["id"])
    await between.reached()
    await deployment.crash()
    await client.wait_for(run["id"], "cancelled")
    tree = await client.tree(run["id"])
    assert [effects(member) for member in tree] == [["compensated"], ["compensated"] * 2]
    assert [world.effects.count(f"unbook-{name}") for name in ("c2", "c1", "p1")] == [1, 1, 1]


async def test_kill_while_an_undo_waits_for_its_next_attempt_keeps_count(
    world: World, client: Client, deployment: Deployment
) -> None:
    gate = world.gate("cannot-count:before", nth=2)
    run = await parked(client, use("book_tx_for_good", name="count"))
    await client.compensate(run)
    await client.descendants_waits(run, "timer")
    await deployment.restart()
    await gate.reached()
    gate.open()
    ended = await client.wait_for(run, "cancelled")
    assert effects(ended) == ["confirmed"]
    assert world.effects.count("cannot-count") == 2
    assert notes(deployment.database_url, run) == ["count"]


async def test_a_worker_that_is_told_to_stop_begins_no_further_undo(
    world: World, client: Client, deployment: Deployment
) -> None:
    gate = world.gate("unbook-last:before")
    run = await parked(client, use("book_once", name="early"), use("book_once", name="last"))
    await client.compensate(run)
    await gate.reached()
    leaving = asyncio.create_task(deployment.terminate(deployment.worker))
    await asyncio.sleep(0)  # so that it is no longer counted among the workers
    await deployment.start_worker()
    gate.open()
    assert await leaving == 0
    ended = await client.wait_for(run, "cancelled")
    assert effects(ended) == ["compensated"] * 2
    last, early = await undos(client, run)
    assert last["worker"] != early["worker"]
    assert [last["attempts"], early["attempts"]] == [1, 1]


async def test_an_undo_whose_hook_a_deploy_took_away_is_told_as_failed(
    world: World, client: Client, deployment: Deployment
) -> None:
    run = await parked(client, use("book", name="stays"), use("book_until_deploy", name="gone"))
    await deployment.crash(WITHOUT_HOOK="1")
    assert (await client.compensate(run)).status_code == 202
    ended = await client.wait_for(run, "cancelled")
    assert effects(ended) == ["compensated", "confirmed"]
    gone, _ = await undos(client, run)
    assert (gone["state"], gone["result"]["error"]) == ("failed", "tool_missing")
    types = await client.event_types(run)
    assert (types.count("compensation.failed"), types.count("compensation.succeeded")) == (1, 1)
    assert world.effects.count("unbook-gone") == 0
    await deployment.crash()
