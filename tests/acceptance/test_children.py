"""A run that gives a task to another agent waits for it, holds nothing, and answers for it."""

import pytest

from tests.support.client import Client
from tests.support.deployment import Deployment
from tests.support.scripts import Step, say, script, together, use
from tests.support.world import World


def give(*steps: Step, agent: str = "desk") -> Step:
    """Asks for one child run whose model follows `steps`."""
    return use("delegate", agent=agent, input=script(*steps))


@pytest.mark.calm
async def test_a_child_does_its_task_and_its_parent_goes_on_with_the_result(
    world: World, client: Client
) -> None:
    run = await client.submit(
        give(use("pay_idem", ref="child"), say("paid by the child")), say("done")
    )
    parent = await client.succeeded(run["id"])
    child = await client.child(run["id"])
    assert (child["parent"], child["root"], child["status"]) == (run["id"], run["id"], "succeeded")
    assert child["session"] != parent["session"]
    assert child["trace_id"] == parent["trace_id"]
    assert "paid by the child" in str(world.model.requests[-1].last_results)
    assert len(world.payments.calls_for("child")) == 1
    call = await client.call(run["id"])
    assert call["result"] == {"run": child["id"], "text": "paid by the child"}


@pytest.mark.case("B27", "B26")
async def test_an_approval_inside_a_child_shows_at_the_parent_and_is_carried_out_once(
    world: World, client: Client, deployment: Deployment
) -> None:
    run = await client.submit(
        give(use("refund", ref="one"), use("refund", ref="two"), say("both refunded")), say("done")
    )
    for ref in ("one", "two"):
        (wait,) = await client.descendants_waits(run["id"], "approval")
        assert wait["arguments"]["ref"] == ref
        await deployment.crash()
        await client.allow(wait["id"])
        if ref == "one":
            await client.resolved_and_asked_again(run["id"], wait["id"])
    await client.succeeded(run["id"])
    assert sorted(row.ref for row in world.payments.ledger) == ["one", "two"]
    assert "both refunded" in str(world.model.requests[-1].last_results)


@pytest.mark.case("B57")
async def test_a_cancel_ends_the_whole_tree(world: World, client: Client) -> None:
    run = await client.submit(
        together(
            give(give(use("refund", ref="grandchild"), say("x")), say("x")),
            give(use("sleep_for", seconds=3600), say("x")),
        ),
        say("never"),
    )
    await client.descendants_waits(run["id"], "approval")
    assert (await client.cancel(run["id"])).status_code == 202
    tree = await client.tree(run["id"])
    assert [member["status"] for member in tree] == ["cancelled"] * 4
    assert world.payments.calls == []


@pytest.mark.calm
async def test_an_unknown_agent_is_said_to_the_model(world: World, client: Client) -> None:
    run = await client.submit(give(say("x"), agent="nobody"), say("done"))
    parent = await client.succeeded(run["id"])
    assert parent["children"] == []
    assert "There is no agent 'nobody'" in str(world.model.requests[-1].last_results)
