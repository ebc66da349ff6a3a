"""What a person may decide, and what becomes of decisions that come late, twice or to nobody."""

import pytest

from tests.support.client import Client
from tests.support.scripts import say, together, use
from tests.support.world import World

pytestmark = pytest.mark.calm


@pytest.mark.case("A11", "B12")
async def test_a_denied_call_stays_denied(world: World, client: Client) -> None:
    run = await client.submit(use("refund", ref="<a11>"), say("understood"))
    wait = await client.open_wait(run["id"])
    denied = await client.deny(wait["id"], reason="wrong order")
    await client.succeeded(run["id"])
    (told,) = world.model.about("<a11>")[-1].last_results
    assert told["is_error"] is True
    assert "denied" in str(told["content"])
    assert "wrong order" in str(told["content"])

    late = await client.resolve(wait["id"], {"decision": "allow"})
    assert (late.status_code, late.json()["type"]) == (409, "/problems/already-resolved")
    assert late.json()["wait"]["resolution"] == denied["resolution"]
    assert (await client.call(run["id"]))["state"] == "denied"
    assert world.payments.calls_for("<a11>") == []


@pytest.mark.case("A17")
async def test_a_decision_for_an_unknown_wait_is_not_found(world: World, client: Client) -> None:
    run = await client.submit(use("refund", ref="a17"), say("done"))
    wait = await client.open_wait(run["id"])
    for stranger in ("wait_" + "0" * 26, run["id"], wait["call"], "nonsense"):
        answer = await client.resolve(stranger, {"decision": "allow"})
        assert (answer.status_code, answer.json()["type"]) == (404, "/problems/not-found")
    assert (await client.run(run["id"]))["status"] == "waiting"
    assert world.payments.calls_for("a17") == []


@pytest.mark.case("B13")
async def test_a_decision_of_an_earlier_call_does_not_touch_a_later_one(
    world: World, client: Client
) -> None:
    run = await client.submit(
        use("refund", ref="b13-first"), use("refund", ref="b13-second"), say("done")
    )
    first = await client.open_wait(run["id"])
    await client.deny(first["id"])
    second = await client.other_wait(run["id"], first["id"])
    stale = await client.resolve(first["id"], {"decision": "allow"})
    assert stale.status_code == 409
    assert await client.open_wait(run["id"]) == second
    assert world.payments.calls_for("b13-second") == []


@pytest.mark.case("B18", "B21")
async def test_three_calls_of_one_tool_are_three_questions(world: World, client: Client) -> None:
    refs = ["b18-denied", "b18-second", "b18-third"]
    run = await client.submit(together(*(use("refund", ref=ref) for ref in refs)), say("done"))
    waits = await client.open_waits(run["id"], count=3)
    assert [wait["arguments"]["ref"] for wait in waits] == refs
    await client.allow(waits[2]["id"])
    await client.deny(waits[0]["id"])
    await client.allow(waits[1]["id"])
    await client.succeeded(run["id"])
    assert [len(world.payments.rows_for(ref)) for ref in refs] == [0, 1, 1]
    results = world.model.about("b18-denied")[-1].last_results
    assert [bool(result.get("is_error")) for result in results] == [True, False, False]
    assert 400 not in world.model.statuses("b18-denied")


async def test_two_gated_calls_in_a_row_both_resume(world: World, client: Client) -> None:
    run = await client.submit(
        use("refund", ref="b26-first"), use("refund", ref="b26-second"), say("done")
    )
    first = await client.open_wait(run["id"])
    await client.allow(first["id"])
    await client.allow((await client.other_wait(run["id"], first["id"]))["id"])
    await client.succeeded(run["id"])
    assert [len(world.payments.rows_for(f"b26-{n}")) for n in ("first", "second")] == [1, 1]


async def test_an_approval_of_other_arguments_is_refused(world: World, client: Client) -> None:
    run = await client.submit(use("refund", ref="hash"), say("done"))
    wait = await client.open_wait(run["id"])
    stale = await client.resolve(wait["id"], {"decision": "allow", "arguments_hash": "0" * 64})
    assert (stale.status_code, stale.json()["type"]) == (409, "/problems/stale-arguments")
    shown = {"decision": "allow", "arguments_hash": wait["arguments_hash"]}
    assert (await client.resolve(wait["id"], shown)).status_code == 200
    await client.succeeded(run["id"])
    assert len(world.payments.rows_for("hash")) == 1


async def test_a_decision_with_an_unknown_field_decides_nothing(client: Client) -> None:
    run = await client.submit(use("refund", ref="typo"), say("done"))
    wait = await client.open_wait(run["id"])
    typo = await client.resolve(wait["id"], {"decision": "allow", "raeson": "ok"})
    assert (typo.status_code, typo.json()["type"]) == (422, "/problems/invalid-request")
    assert await client.open_wait(run["id"]) == wait


async def test_a_decision_tells_who_decided_what_and_how(client: Client) -> None:
    run = await client.submit(use("refund", ref="record"), say("done"))
    wait = await client.open_wait(run["id"])
    decided = await client.allow(wait["id"])
    assert (decided["state"], decided["resolved_by"]) == ("resolved", "local")
    assert decided["resolution"]["decision"] == "allow"
    assert decided["resolved_at"]
    assert decided["resolved_via"]
    assert decided["arguments_hash"] == (await client.call(run["id"]))["arguments_hash"]


async def test_an_agent_may_ask_more_often_than_its_tools(world: World, client: Client) -> None:
    run = await client.submit(use("pay_idem", ref="strict"), say("done"), agent="cautious")
    wait = await client.open_wait(run["id"])
    assert world.payments.calls_for("strict") == []
    await client.allow(wait["id"])
    await client.succeeded(run["id"])
    assert len(world.payments.rows_for("strict")) == 1


async def test_an_agent_cannot_ask_less_often_than_its_tools(world: World, client: Client) -> None:
    run = await client.submit(use("refund", ref="lenient"), say("done"), agent="cautious")
    await client.open_wait(run["id"])
    assert world.payments.calls_for("lenient") == []


async def test_what_changed_since_the_question_is_asked_anew(world: World, client: Client) -> None:
    version = world.documents.write("moving", "one")
    run = await client.submit(use("edit", name="moving"), say("edited"))
    first = await client.open_wait(run["id"])
    assert first["evidence"] == {"version": version}
    world.documents.write("moving", "two")
    await client.allow(first["id"])
    second = await client.other_wait(run["id"], first["id"])
    assert str(version + 1) in str(second["evidence"])
    assert world.effects.count("edit") == 0
    await client.allow(second["id"])
    await client.succeeded(run["id"])
    assert world.effects.count("edit") == 1
    states = {wait["id"]: wait["state"] for wait in await client.waits(run["id"])}
    assert states == {first["id"]: "superseded", second["id"]: "resolved"}


async def test_an_expired_approval_is_told_as_expired(world: World, client: Client) -> None:
    run = await client.submit(use("refund_soon", ref="late"), say("understood"))
    wait = await client.wait_of(run["id"])
    await client.succeeded(run["id"])
    (told,) = world.model.about("late")[-1].last_results
    assert "expired" in str(told["content"])
    late = await client.resolve(wait["id"], {"decision": "allow"})
    assert (late.status_code, late.json()["type"]) == (410, "/problems/wait-closed")
    assert world.payments.calls_for("late") == []
