"""An approval is asked once, answered once and carried out once, whatever dies meanwhile."""

import pytest

from tests.support.client import Client
from tests.support.deployment import Deployment
from tests.support.scripts import say, together, use
from tests.support.world import World


@pytest.mark.case("A09", "A10")
async def test_kill_at_a_park_keeps_the_question_and_carries_it_out_once(
    world: World, client: Client, deployment: Deployment
) -> None:
    run = await client.submit(use("refund", ref="a09"), say("refunded"))
    before = await client.open_wait(run["id"])
    await deployment.crash()
    after = await client.open_wait(run["id"])
    assert after == before
    assert after["arguments"] == {"ref": "a09", "amount": 100}

    first = await client.allow(after["id"])
    await client.succeeded(run["id"])
    assert world.model.steps() == [0, 1]
    for _ in range(2):
        assert await client.allow(after["id"]) == first
    assert (len(world.payments.calls), len(world.payments.ledger)) == (1, 1)


@pytest.mark.case("A12", "A13")
@pytest.mark.parametrize("window", ["before", "after"])
async def test_kill_around_an_approved_effect_asks_no_second_time(
    world: World, client: Client, deployment: Deployment, window: str
) -> None:
    gate = world.gate(f"pay:{window}")
    run = await client.submit(use("refund", ref="a12"), say("refunded"))
    await client.allow((await client.open_wait(run["id"]))["id"])
    await gate.reached()
    await deployment.crash()
    await client.succeeded(run["id"])
    approvals = await client.waits(run["id"], kind="approval")
    assert [wait["state"] for wait in approvals] == ["resolved"]
    assert len(world.payments.ledger) == 1
    assert len({call.key for call in world.payments.calls}) == 1


@pytest.mark.case("A19")
async def test_kill_at_the_park_of_a_mixed_turn_runs_each_call_once(
    world: World, client: Client, deployment: Deployment
) -> None:
    run = await client.submit(
        together(use("pay_once", ref="a19-pay"), use("refund", ref="a19-refund")), say("done")
    )
    wait = await client.open_wait(run["id"])
    await deployment.crash()
    await client.allow(wait["id"])
    await client.succeeded(run["id"])
    for ref in ("a19-pay", "a19-refund"):
        assert len(world.payments.calls_for(ref)) == 1
    assert world.model.steps() == [0, 1]


@pytest.mark.case("A41", "B21")
async def test_kill_between_two_decisions_of_one_turn_keeps_both(
    world: World, client: Client, deployment: Deployment
) -> None:
    run = await client.submit(
        together(use("refund", ref="a41-yes"), use("refund", ref="a41-no")), say("done")
    )
    yes, no = await client.open_waits(run["id"], count=2)
    await client.allow(yes["id"])
    await deployment.crash()
    await client.deny(no["id"])
    await client.succeeded(run["id"])
    assert [row.ref for row in world.payments.ledger] == ["a41-yes"]
    assert [c["state"] for c in await client.calls(run["id"])] == ["succeeded", "denied"]
    assert 400 not in world.model.statuses()


@pytest.mark.case("B05")
@pytest.mark.parametrize("window", ["before", "after"])
async def test_kill_around_an_approved_at_most_once_effect_asks_what_happened(
    world: World, client: Client, deployment: Deployment, window: str
) -> None:
    gate = world.gate(f"pay:{window}")
    run = await client.submit(use("refund_once", ref="b05"), say("noted"))
    await client.allow((await client.open_wait(run["id"]))["id"])
    await gate.reached()
    await deployment.crash()
    wait = await client.open_wait(run["id"], kind="outcome")
    assert (await client.call(run["id"]))["state"] == "outcome_unknown"
    assert world.model.steps() == [0]

    happened = {"outcome": "happened", "result": {"found": "found by the bank"}}
    assert (await client.resolve(wait["id"], happened)).status_code == 200
    await client.succeeded(run["id"])
    assert len(world.payments.calls) == 1
    assert "found by the bank" in str(world.model.requests[-1].last_results)


@pytest.mark.case("B11")
async def test_kill_after_a_decision_repeats_nothing_from_before_the_park(
    world: World, client: Client, deployment: Deployment
) -> None:
    gate = world.gate("llm:2")
    run = await client.submit(
        use("count", name="notify"), use("refund", ref="b11"), say("refunded")
    )
    await client.allow((await client.open_wait(run["id"]))["id"])
    await gate.reached()
    await deployment.crash()
    await client.succeeded(run["id"])
    assert world.model.steps() == [0, 1, 2, 2]
    assert (world.effects.count("notify"), len(world.payments.calls)) == (1, 1)
