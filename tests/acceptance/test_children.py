"""A run that gives a task to another agent waits for it, holds nothing, and answers for it."""

import pytest

from tests.support.client import Client, Json
from tests.support.deployment import Deployment
from tests.support.scripts import Step, give, say, script, together, use
from tests.support.world import World


def told_to_parent(world: World, mark: str) -> list[Json]:
    """The results in the last request of the run whose own text holds `mark`."""
    requests = [r for r in world.model.requests if r.texts and mark in r.texts[0]]
    return requests[-1].last_results


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


@pytest.mark.calm
async def test_an_unknown_agent_is_said_to_the_model(world: World, client: Client) -> None:
    run = await client.submit(give(say("x"), agent="nobody"), say("done"))
    parent = await client.succeeded(run["id"])
    assert parent["children"] == []
    assert "There is no agent 'nobody'" in str(world.model.requests[-1].last_results)


@pytest.mark.calm
async def test_two_children_of_one_turn_work_at_the_same_time(world: World, client: Client) -> None:
    gates = [world.gate(f"{name}:before") for name in ("left", "right")]
    children = [give(use("count", name=name), say(f"{name} done")) for name in ("left", "right")]
    run = await client.submit(together(*children), say("both"), preface="<two> ")
    for gate in gates:
        await gate.reached()
    for gate in gates:
        gate.open()
    await client.succeeded(run["id"])
    results = told_to_parent(world, "<two> ")
    assert ["left done" in str(results[0]), "right done" in str(results[1])] == [True, True]
    assert [world.effects.count(name) for name in ("left", "right")] == [1, 1]


@pytest.mark.calm
async def test_a_child_that_a_limit_stops_is_told_and_its_parent_goes_on(
    world: World, client: Client
) -> None:
    """Each agent's own limits hold for its children; what one comes to is not its sibling's."""
    run = await client.submit(
        together(
            give(use("count", name="brief"), say("never said"), agent="brief"),
            give(use("count", name="long"), say("long enough")),
        ),
        say("one of two"),
        preface="<limited> ",
    )
    await client.succeeded(run["id"])
    children = {child["agent"]: child for child in await client.children(run["id"], 2)}
    assert (children["brief"]["status"], children["brief"]["reason"]) == ("failed", "limit_turns")
    assert children["desk"]["status"] == "succeeded"
    told, good = told_to_parent(world, "<limited> ")
    assert told["is_error"] is True
    assert "failed (limit_turns)" in str(told["content"])
    assert "long enough" in str(good["content"])
    assert [call["state"] for call in await client.calls(run["id"])] == ["failed", "succeeded"]
    assert [world.effects.count(name) for name in ("brief", "long")] == [1, 1]


@pytest.mark.calm
async def test_a_child_that_is_cancelled_by_itself_is_told_and_its_parent_goes_on(
    world: World, client: Client
) -> None:
    run = await client.submit(
        give(use("refund", ref="alone"), say("x")), say("without it"), preface="<alone> "
    )
    (wait,) = await client.descendants_waits(run["id"], "approval")
    child = await client.child(run["id"])
    assert (await client.cancel(child["id"])).status_code == 202
    parent = await client.succeeded(run["id"])
    assert parent["output"]["text"] == "without it"
    (told,) = told_to_parent(world, "<alone> ")
    assert told["is_error"] is True
    assert "cancelled" in str(told["content"])
    assert (await client.run(child["id"]))["status"] == "cancelled"
    assert (await client.resolve(wait["id"], {"decision": "allow"})).status_code == 410
    assert world.payments.calls_for("alone") == []


@pytest.mark.calm
async def test_the_sixth_level_of_delegation_is_refused_to_the_model(
    world: World, client: Client
) -> None:
    steps: list[Step] = [say("never reached")]
    for level in reversed(range(6)):
        steps = [give(*steps), say(f"level {level}")]
    run = await client.submit(*steps)
    await client.succeeded(run["id"], within=60)
    tree = await client.tree(run["id"])
    assert [member["status"] for member in tree] == ["succeeded"] * 6
    assert {member["root"] for member in tree} == {run["id"]}
    refused = await client.call(tree[-1]["id"])
    assert (refused["state"], refused["result"]["error"]) == ("failed", "too_deep")
    deepest = [r for r in world.model.requests if "at most 5 deep" in str(r.last_results)]
    assert len(deepest) == 1
    assert "never reached" not in deepest[0].texts


@pytest.mark.calm
async def test_a_message_to_a_child_is_heard_by_the_child_alone(
    world: World, client: Client
) -> None:
    gate = world.gate("spoken:before")
    run = await client.submit(
        give(use("count", name="spoken"), say("heard")), say("done"), preface="<speaking> "
    )
    await gate.reached()
    child = await client.child(run["id"])
    assert (await client.send(child["id"], "also mind the hedge")).status_code == 202
    assert (await client.send(run["id"], "be quick")).status_code == 202
    gate.open()
    await client.succeeded(run["id"])
    heard = [r for r in world.model.requests if "also mind the hedge" in r.texts]
    assert [request.step for request in heard] == [1]
    assert "<speaking> " not in heard[0].transcript
    assert [m["state"] for m in await client.messages(child["id"])] == ["delivered"]
    urged = [r for r in world.model.requests if "be quick" in r.texts]
    assert [request.step for request in urged] == [1]
    assert "<speaking> " in urged[0].transcript
    late = await client.send(child["id"], "too late")
    assert (late.status_code, late.json()["type"]) == (409, "/problems/run-ended")


@pytest.mark.calm
async def test_a_child_may_need_an_approval_before_it_is_started(
    world: World, client: Client
) -> None:
    task = give(use("count", name="approved"), say("counted"))
    run = await client.submit(task, say("done"), agent="cautious")
    wait = await client.open_wait(run["id"])
    assert (await client.run(run["id"]))["children"] == []
    await client.allow(wait["id"])
    await client.succeeded(run["id"])
    assert (await client.child(run["id"]))["status"] == "succeeded"
    assert world.effects.count("approved") == 1


@pytest.mark.calm
async def test_whoever_waits_for_a_parent_is_told_that_its_child_needs_a_person(
    client: Client,
) -> None:
    body: Json = {"agent": "desk", "input": script(give(use("refund", ref="p"), say("x")))}
    answer = await client.post_run(body, prefer="wait=60")
    assert (answer.status_code, answer.json()["status"]) == (202, "waiting")
    kinds = sorted(wait["kind"] for wait in answer.json()["waiting_for"])
    assert kinds == ["approval", "child"]
    await client.cancel(answer.json()["id"])


@pytest.mark.calm
async def test_the_session_of_a_child_is_busy_like_any_other(world: World, client: Client) -> None:
    run = await client.submit(give(use("refund", ref="busy"), say("child done")), say("done"))
    (wait,) = await client.descendants_waits(run["id"], "approval")
    child = await client.child(run["id"])
    work: Json = {"agent": "desk", "input": script(say("next")), "session": child["session"]}
    rejected = await client.post_run(work | {"on_busy": "reject"})
    assert (rejected.status_code, rejected.json()["type"]) == (409, "/problems/target-busy")
    existing = await client.post_run(work | {"on_busy": "return_existing"})
    assert (existing.status_code, existing.json()["id"]) == (200, child["id"])
    queued = (await client.post_run(work)).json()
    assert (await client.run(queued["id"]))["status"] == "queued"
    await client.allow(wait["id"])
    await client.succeeded(run["id"])
    await client.succeeded(queued["id"])
    assert len(world.payments.calls_for("busy")) == 1


@pytest.mark.calm
async def test_superseding_a_child_in_its_session_is_told_to_its_parent(
    world: World, client: Client
) -> None:
    run = await client.submit(
        give(use("refund", ref="superseded"), say("x")), say("so be it"), preface="<superseded> "
    )
    await client.descendants_waits(run["id"], "approval")
    child = await client.child(run["id"])
    other = await client.submit(say("mine"), session=child["session"], on_busy="supersede")
    await client.succeeded(other["id"])
    assert (await client.succeeded(run["id"]))["output"]["text"] == "so be it"
    assert "cancelled" in str(told_to_parent(world, "<superseded> "))
    assert world.payments.calls_for("superseded") == []
