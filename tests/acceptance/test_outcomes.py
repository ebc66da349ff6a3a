"""An outcome that nobody knows: who is asked, what is told, and how it is settled."""

import pytest

from tests.support.client import Client, Json
from tests.support.deployment import Deployment
from tests.support.scripts import say, use
from tests.support.world import World


async def interrupted(
    world: World, client: Client, deployment: Deployment, tool: str, *refs: str
) -> list[Json]:
    """One run per ref, all killed by one kill -9 after the payment and before its record."""
    gate = world.gate("pay:after", span=len(refs))
    runs = [await client.submit(use(tool, ref=ref), say("noted"), session=ref) for ref in refs]
    await gate.reached(holding=len(refs))
    await deployment.crash()
    return runs


@pytest.mark.case("B05")
async def test_a_person_settles_what_nobody_knows_before_the_model_hears_of_it(
    world: World, client: Client, deployment: Deployment
) -> None:
    refs = ["ref-happened", "ref-absent", "ref-skipped"]
    runs = await interrupted(world, client, deployment, "pay_once_ask", *refs)
    waits = [await client.open_wait(run["id"], kind="outcome") for run in runs]
    assert [world.model.steps(ref) for ref in refs] == [[0], [0], [0]]
    answers: list[Json] = [
        {"outcome": "happened", "result": {"receipt": "r-77"}},
        {"outcome": "did_not_happen"},
        {"outcome": "skip", "reason": "will look tomorrow"},
    ]
    for wait, answer in zip(waits, answers, strict=True):
        assert (await client.resolve(wait["id"], answer)).status_code == 200
    for run in runs:
        await client.succeeded(run["id"])

    calls = [await client.call(run["id"]) for run in runs]
    assert [call["state"] for call in calls] == ["succeeded", "succeeded", "outcome_unknown"]
    assert [call["attempts"] for call in calls] == [1, 2, 1]
    assert [len(world.payments.calls_for(ref)) for ref in refs] == [1, 2, 1]
    told = [str(world.model.about(ref)[-1].last_results) for ref in refs]
    assert "r-77" in told[0]
    assert "paid" in told[1]
    assert "unknown" in told[2]


async def test_what_the_model_was_told_as_unknown_is_settled_later(
    world: World, client: Client, deployment: Deployment
) -> None:
    (run,) = await interrupted(world, client, deployment, "pay_once", "later")
    await client.succeeded(run["id"])
    call = await client.call(run["id"])
    assert (await client.run(run["id"]))["effects"] == [
        {"call": call["id"], "tool": "pay_once", "effect": "unknown"}
    ]

    happened = {"outcome": "happened", "result": {"receipt": "r-78"}}
    settled = await client.settle(call["id"], happened)
    assert settled.status_code == 200
    after = await client.call(run["id"])
    assert (after["state"], after["result"]) == ("succeeded", {"receipt": "r-78"})
    assert after["attempts"] == 1
    assert (await client.run(run["id"]))["effects"][0]["effect"] == "confirmed"
    assert len(world.payments.calls) == 1
    assert world.model.steps("later") == [0, 1]


async def test_a_tool_with_an_unknown_outcome_asks_until_it_is_settled(
    world: World, client: Client, deployment: Deployment
) -> None:
    (first,) = await interrupted(world, client, deployment, "pay_once", "guarded")
    await client.succeeded(first["id"])
    second = await client.submit(use("pay_once", ref="second"), say("ok"), session="guarded")
    wait = await client.open_wait(second["id"])
    assert world.payments.calls_for("second") == []
    await client.deny(wait["id"])
    await client.succeeded(second["id"])

    unknown = await client.call(first["id"])
    settled = await client.settle(unknown["id"], {"outcome": "did_not_happen"})
    assert settled.status_code == 200
    third = await client.submit(use("pay_once", ref="third"), say("ok"), session="guarded")
    await client.succeeded(third["id"])
    assert len(world.payments.calls_for("third")) == 1
    assert len(world.payments.calls_for("guarded")) == 1


async def test_only_an_unknown_outcome_can_be_settled(world: World, client: Client) -> None:
    run = await client.submit(use("pay_once", ref="known"), say("paid"))
    await client.succeeded(run["id"])
    call = await client.call(run["id"])
    refused = await client.settle(call["id"], {"outcome": "did_not_happen"})
    assert 400 <= refused.status_code < 500
    assert (await client.call(run["id"]))["state"] == "succeeded"
    missing = await client.settle("call_" + "0" * 26 + "_1_0", {"outcome": "did_not_happen"})
    assert missing.status_code == 404
