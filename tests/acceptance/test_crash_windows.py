"""kill -9 in every window of a tool call, for every promise that a tool's author can make."""

import asyncio

import pytest

from tests.support.client import Client
from tests.support.deployment import Deployment
from tests.support.inspection import notes
from tests.support.scripts import say, together, use
from tests.support.world import World

WINDOWS = ["before", "after"]


@pytest.mark.case("A01")
async def test_an_undisturbed_run_asks_twice_and_pays_once(world: World, client: Client) -> None:
    run = await client.submit(use("pay_idem", ref="a01"), say("paid"))
    ended = await client.succeeded(run["id"])
    assert ended["output"]["text"] == "paid"
    assert world.model.steps() == [0, 1]
    assert len(world.payments.ledger) == 1


@pytest.mark.case("A02")
async def test_kill_after_outcome_in_model_call(
    world: World, client: Client, deployment: Deployment
) -> None:
    gate = world.gate("llm:1")
    run = await client.submit(use("pay_once", ref="a02"), say("paid"))
    await gate.reached()
    await deployment.crash()
    await client.succeeded(run["id"])
    assert len(world.payments.calls) == 1
    assert world.model.steps() in ([0, 1], [0, 1, 1])


@pytest.mark.case("A03", "A04", "A50")
@pytest.mark.parametrize("window", WINDOWS)
async def test_kill_around_effect_repeats_the_call_under_one_key(
    world: World, client: Client, deployment: Deployment, window: str
) -> None:
    gate = world.gate(f"pay:{window}")
    run = await client.submit(use("pay_idem", ref="a03"), say("paid"))
    await gate.reached()
    first = (await client.run(run["id"]))["worker"]
    await deployment.crash()
    ended = await client.succeeded(run["id"])
    call = await client.call(run["id"])
    assert [paid.key for paid in world.payments.calls] == [call["idempotency_key"]] * 2
    assert call["idempotency_key"] == f"{run['id']}/1/0"
    assert len(world.payments.ledger) == 1
    assert world.model.steps() == [0, 1]
    assert [attempt["attempt"] for attempt in call["history"]] == [1, 2]
    turns = [turn["history"][0]["worker"] for turn in await client.turns(run["id"])]
    assert [attempt["worker"] for attempt in call["history"]] == turns
    assert turns[0] == first != turns[1]
    assert ended["trace_id"] == run["trace_id"]


@pytest.mark.case("A05", "A06")
@pytest.mark.parametrize("window", WINDOWS)
async def test_kill_around_effect_of_at_most_once_is_told_as_unknown(
    world: World, client: Client, deployment: Deployment, window: str
) -> None:
    gate = world.gate(f"pay:{window}")
    run = await client.submit(use("pay_once", ref="a05"), say("noted"))
    await gate.reached()
    await deployment.crash()
    await client.succeeded(run["id"])
    await asyncio.sleep(3)  # a repetition would come late, if ever
    assert len(world.payments.calls) == 1
    assert (await client.call(run["id"]))["state"] == "outcome_unknown"
    (told,) = world.model.requests[-1].last_results
    assert told["is_error"] is True
    assert "unknown" in str(told["content"]).lower()
    assert "failed" not in str(told["content"]).lower()


@pytest.mark.case("A07")
@pytest.mark.parametrize("window", ["before", "after"])
async def test_kill_in_read_only_reads_again(
    world: World, client: Client, deployment: Deployment, window: str
) -> None:
    world.documents.write("d", "old")
    gate = world.gate(f"doc:{window}")
    run = await client.submit(use("doc_read", name="d"), say("read"))
    await gate.reached()
    world.documents.write("d", "new")
    await deployment.crash()
    await client.succeeded(run["id"])
    assert len(world.documents.reads) == 2
    assert "new" in str(world.model.requests[-1].last_results)
    assert world.model.steps() == [0, 1]


@pytest.mark.case("A08")
async def test_kill_at_six_moments_leaves_each_transactional_row_once(
    client: Client, deployment: Deployment
) -> None:
    for moment in (0.05, 0.17, 0.29, 0.41, 0.53, 0.65):
        run = await client.submit(use("note_tx", text="a"), use("note_tx", text="b"), say("done"))
        await asyncio.sleep(moment)
        await deployment.crash()
        await client.succeeded(run["id"])
        assert notes(deployment.database_url, run["id"]) == ["a", "b"], moment


@pytest.mark.case("A08")
@pytest.mark.parametrize("window", WINDOWS)
async def test_kill_inside_the_transaction_leaves_the_row_once(
    world: World, client: Client, deployment: Deployment, window: str
) -> None:
    gate = world.gate(f"note_tx:{window}")
    run = await client.submit(use("note_tx", text="a"), say("done"))
    await gate.reached()
    await deployment.crash()
    await client.succeeded(run["id"])
    assert notes(deployment.database_url, run["id"]) == ["a"]
    assert world.effects.count("note_tx") == (1 if window == "before" else 2)


@pytest.mark.case("A31")
async def test_kill_after_effect_is_reconciled_with_what_happened(
    world: World, client: Client, deployment: Deployment
) -> None:
    gate = world.gate("pay:after")
    run = await client.submit(use("pay_once_r", ref="a31"), say("paid"))
    await gate.reached()
    await deployment.crash()
    await client.succeeded(run["id"])
    assert world.payments.lookups
    assert len(world.payments.calls) == 1
    (told,) = world.model.requests[-1].last_results
    assert not told.get("is_error")
    assert "paid" in str(told["content"])
    assert "call.reconciled" in await client.event_types(run["id"])


@pytest.mark.case("A31")
async def test_kill_before_effect_is_reconciled_and_run_once_more(
    world: World, client: Client, deployment: Deployment
) -> None:
    gate = world.gate("pay:before")
    run = await client.submit(use("pay_once_r", ref="a31"), say("paid"))
    await gate.reached()
    await deployment.crash()
    await client.succeeded(run["id"])
    assert world.payments.lookups
    assert (len(world.payments.calls), len(world.payments.ledger)) == (2, 1)


@pytest.mark.case("A31")
async def test_a_hook_that_cannot_tell_leaves_the_outcome_unknown(
    world: World, client: Client, deployment: Deployment
) -> None:
    gate = world.gate("pay:after")
    run = await client.submit(use("pay_once_unsure", ref="a31"), say("noted"))
    await gate.reached()
    await deployment.crash()
    await client.succeeded(run["id"])
    assert world.effects.count("never_sure") >= 1
    assert len(world.payments.calls) == 1
    assert (await client.call(run["id"]))["state"] == "outcome_unknown"


@pytest.mark.case("B07")
async def test_kill_in_a_parallel_batch_touches_only_the_call_in_flight(
    world: World, client: Client, deployment: Deployment
) -> None:
    gate = world.gate("c:before")
    run = await client.submit(
        together(use("count", name="a"), use("count", name="b"), use("count", name="c")),
        say("done"),
    )
    await gate.reached()
    await client.call_states(run["id"], ["succeeded", "succeeded", "started"])
    await deployment.crash()
    await client.succeeded(run["id"])
    assert [world.effects.count(name) for name in "abc"] == [1, 1, 1]
    assert [c["attempts"] for c in await client.calls(run["id"])] == [1, 1, 2]
    results = world.model.requests[-1].last_results
    uses = [block["id"] for block in world.model.requests[-1].last_answer if "input" in block]
    assert [result["tool_use_id"] for result in results] == uses
    assert len(results) == 3


@pytest.mark.case("B07", "A19")
async def test_kill_in_a_parallel_batch_makes_only_its_own_call_unknown(
    world: World, client: Client, deployment: Deployment
) -> None:
    gate = world.gate("pay:after")
    run = await client.submit(
        together(use("count", name="a"), use("pay_once", ref="b07")), say("done")
    )
    await gate.reached()
    await client.call_states(run["id"], ["succeeded", "started"])
    await deployment.crash()
    await client.succeeded(run["id"])
    states = [call["state"] for call in await client.calls(run["id"])]
    assert states == ["succeeded", "outcome_unknown"]
    assert (world.effects.count("a"), len(world.payments.calls)) == (1, 1)


@pytest.mark.case("A22")
async def test_another_worker_takes_over_from_a_dead_one(
    world: World, client: Client, deployment: Deployment
) -> None:
    await deployment.start_worker()
    gate = world.gate("pay:after")
    run = await client.submit(use("pay_idem", ref="a22"), say("paid"))
    await gate.reached()
    holder = (await client.run(run["id"]))["worker"]
    deployment.kill9(deployment.worker_named(holder))
    await client.succeeded(run["id"], within=15)
    assert len(world.payments.ledger) == 1
    taken_over = [e for e in await client.events(run["id"]) if e["type"] == "run.taken_over"]
    assert [event["data"]["from_worker"] for event in taken_over] == [holder]
