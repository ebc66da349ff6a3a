"""A hook that asks what became of a call finds this call's effect, and no other's."""

import pytest
import pytest_asyncio

from tests.support.client import Client
from tests.support.deployment import Deployment
from tests.support.scripts import say, together, use
from tests.support.world import World


@pytest_asyncio.fixture
async def deployment(shared_deployment: Deployment) -> Deployment:
    """One service for all tests; each finds it whole."""
    await shared_deployment.mend()
    return shared_deployment


@pytest.mark.parametrize("window", ["before", "after"])
async def test_kill_around_an_effect_next_to_another_runs_like_it_claims_only_its_own(
    world: World, client: Client, deployment: Deployment, window: str
) -> None:
    ref = f"twin {window}"
    other = await client.submit(use("pay_once_own", ref=ref, amount=111), say("paid"))
    await client.succeeded(other["id"])
    gate = world.gate(f"pay:{window}")
    run = await client.submit(
        use("pay_once_own", ref=ref, amount=222), say("paid"), preface=f"<second {window}> "
    )
    await gate.reached()
    wrong = world.payments.look_up(ref)
    assert wrong is not None  # it is there to be claimed
    assert wrong.amount == 111
    await deployment.crash()
    await client.succeeded(run["id"])
    call = await client.call(run["id"])
    assert (call["state"], call["result"]["amount"]) == ("succeeded", 222)
    assert call["attempts"] == (2 if window == "before" else 1)
    booked = world.payments.rows_for(ref)
    assert [row.amount for row in booked] == [111, 222]
    assert booked[1].key == call["idempotency_key"]
    assert "222" in str(world.model.about(f"<second {window}>")[-1].last_results)


async def test_kill_of_two_calls_alike_in_one_turn_claims_for_each_its_own(
    world: World, client: Client, deployment: Deployment
) -> None:
    """One has been booked, the other has not: it is not given the first one's payment."""
    booked, lost = world.gate("pay:after"), world.gate("pay:before", nth=2)
    run = await client.submit(
        together(*(use("pay_once_own", ref="siblings", amount=amount) for amount in (111, 222))),
        say("paid"),
    )
    await booked.reached()
    await lost.reached()
    await deployment.crash()
    await client.succeeded(run["id"])
    calls = await client.calls(run["id"])
    assert [call["result"]["amount"] for call in calls] == [111, 222]
    assert sorted(call["attempts"] for call in calls) == [1, 2]
    booked_under = [(row.key, row.amount) for row in world.payments.rows_for("siblings")]
    own = [(call["idempotency_key"], call["result"]["amount"]) for call in calls]
    assert sorted(booked_under) == sorted(own)
