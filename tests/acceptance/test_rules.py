"""A standing rule answers the questions that fit it, where it holds, and no others."""

from typing import Any

import pytest

from tests.support.client import Client, Json
from tests.support.deployment import Deployment
from tests.support.inspection import expire_rule
from tests.support.scripts import give, say, use
from tests.support.world import World

pytestmark = pytest.mark.calm

SCOPES = ["run", "session", "agent"]
# Where a call is made, and which scopes reach there.
PLACES: dict[str, list[str]] = {
    "run": ["run", "session", "agent"],
    "session": ["session", "agent"],
    "agent": ["agent"],
    "other agent": [],
}


async def ruling(
    client: Client, mark: str, scope: str, *, agent: str = "desk", **when: Any
) -> tuple[Json, Json]:
    """A run in a session named `mark` whose refund was allowed, with a rule; both."""
    steps = [use("refund", ref=mark, amount=amount) for amount in (10, 20)]
    run = await client.submit(*steps, say("done"), agent=agent, session=mark)
    wait = await client.open_wait(run["id"])
    when = {"ref": {"equals": mark}} | when
    return run, await client.allow_and_rule(wait["id"], scope=scope, when=when)


async def assert_asked(client: Client, world: World, ref: str, **fields: Any) -> None:
    """A refund in a new run waits for a person, and is denied."""
    before = len(world.payments.calls_for(ref))
    amount = fields.pop("amount", 10)
    run = await client.submit(use("refund", ref=ref, amount=amount), say("x"), **fields)
    await client.deny((await client.open_wait(run["id"]))["id"])
    await client.succeeded(run["id"])
    assert len(world.payments.calls_for(ref)) == before


async def assert_allowed(client: Client, world: World, ref: str, **fields: Any) -> str:
    """A refund in a new run asks nobody."""
    before = len(world.payments.calls_for(ref))
    amount = fields.pop("amount", 10)
    run = await client.submit(use("refund", ref=ref, amount=amount), say("x"), **fields)
    await client.succeeded(run["id"])
    assert len(world.payments.calls_for(ref)) == before + 1
    assert "run.waiting" not in await client.event_types(run["id"])
    return str(run["id"])


async def test_a_rule_tells_who_allowed_what_and_how(world: World, client: Client) -> None:
    run = await client.submit(
        use("refund", ref="told"), use("refund", ref="told"), say("done"), session="told"
    )
    asked = await client.open_wait(run["id"])
    when = {"ref": {"equals": "told"}}
    said = {"decision": "allow", "on_behalf_of": "ann", "rule": {"scope": "run", "when": when}}
    assert (await client.resolve(asked["id"], said)).status_code == 200
    await client.succeeded(run["id"])
    first, second = sorted(await client.waits(run["id"]), key=lambda wait: wait["call"])
    rule = next(rule for rule in await client.rules() if rule["wait"] == first["id"])
    assert (rule["author"], rule["on_behalf_of"], rule["made_via"]) == ("local", "ann", "http")
    assert (first["resolved_via"], second["resolved_via"]) == ("http", "rule")
    assert (second["resolved_by"], second["on_behalf_of"]) == ("local", "ann")
    assert second["resolution"] == {"decision": "allow", "rule": rule["id"]}
    assert second["arguments"] == {"ref": "told", "amount": 100}
    types = await client.event_types(run["id"])
    assert (types.count("wait.opened"), types.count("wait.resolved")) == (2, 2)
    assert types.count("run.waiting") == 1
    assert len(world.payments.calls_for("told")) == 2


@pytest.mark.parametrize("scope", SCOPES)
async def test_a_rule_holds_where_it_was_made_for_and_nowhere_else(
    world: World, client: Client, scope: str
) -> None:
    mark = f"scope-{scope}"
    run, _ = await ruling(client, mark, scope)
    await client.succeeded(run["id"])  # the run's own next call is within every scope
    assert len(world.payments.calls_for(mark)) == 2
    places: dict[str, Json] = {
        "session": {"session": mark},
        "agent": {"session": f"{mark}-other"},
        "other agent": {"session": mark, "agent": "cautious"},
    }
    for place, fields in places.items():
        if scope in PLACES[place]:
            await assert_allowed(client, world, mark, **fields)
        else:
            await assert_asked(client, world, mark, **fields)


@pytest.mark.parametrize("scope", SCOPES)
async def test_a_child_has_a_session_of_its_own_for_rules_too(
    world: World, client: Client, scope: str
) -> None:
    mark = f"child-{scope}"
    refund = use("refund", ref=mark)
    run = await client.submit(refund, give(refund, say("x")), say("done"), session=mark)
    wait = await client.open_wait(run["id"])
    await client.allow_and_rule(wait["id"], scope=scope, when={"ref": {"equals": mark}})
    if scope != "agent":
        (asked,) = await client.descendants_waits(run["id"], "approval")
        await client.deny(asked["id"])
    await client.succeeded(run["id"])
    assert len(world.payments.calls_for(mark)) == (2 if scope == "agent" else 1)


async def test_a_rule_covers_what_is_within_all_its_bounds(world: World, client: Client) -> None:
    bounds: Json = {"amount": {"min": 5, "max": 50}}
    run, _ = await ruling(client, "bounds", "session", **bounds)
    await client.succeeded(run["id"])
    where = {"session": "bounds"}
    for amount in (5, 50):
        await assert_allowed(client, world, "bounds", amount=amount, **where)
    for amount in (4, 51, -1):
        await assert_asked(client, world, "bounds", amount=amount, **where)
    await assert_asked(client, world, "out-of-bounds", amount=10, **where)


async def test_a_rule_of_one_tool_covers_no_other(world: World, client: Client) -> None:
    run, _ = await ruling(client, "tools", "session")
    await client.succeeded(run["id"])
    other = await client.submit(use("refund_once", ref="tools"), say("x"), session="tools")
    await client.deny((await client.open_wait(other["id"]))["id"])
    await client.succeeded(other["id"])
    assert len(world.payments.calls_for("tools")) == 2


@pytest.mark.parametrize("end", ["revoked", "expired"])
async def test_a_rule_that_is_over_allows_nothing_more(
    world: World, client: Client, deployment: Deployment, end: str
) -> None:
    run, rule = await ruling(client, end, "agent")
    await client.succeeded(run["id"])
    allowed = await assert_allowed(client, world, end)
    if end == "revoked":
        assert (await client.revoke(rule["id"])).status_code == 200
    else:
        expire_rule(deployment.database_url, rule["id"])
    await assert_asked(client, world, end)
    (made,) = [each for each in await client.rules() if each["id"] == rule["id"]]
    assert made["state"] == end
    (wait,) = await client.waits(allowed)
    assert (wait["state"], wait["resolution"]["rule"]) == ("resolved", rule["id"])


async def test_a_rule_revoked_before_an_allowed_call_began_does_not_stop_it(
    world: World, client: Client
) -> None:
    """What was allowed stays allowed; revoking is about what comes."""
    model = world.gate("llm:1")
    run, rule = await ruling(client, "late", "run")
    await model.reached()
    assert (await client.revoke(rule["id"])).status_code == 200
    model.open()
    await client.deny((await client.other_wait(run["id"], rule["wait"]))["id"])
    await client.succeeded(run["id"])
    assert len(world.payments.calls_for("late")) == 1


async def test_what_changed_since_a_rule_allowed_it_is_for_a_person_to_see(
    world: World, client: Client
) -> None:
    version = world.documents.write("ruled", "one")
    steps = (use("edit", name="ruled"), use("edit", name="ruled"))
    run = await client.submit(*steps, say("edited"))
    first = await client.open_wait(run["id"])
    look = world.gate(
        "doc:before", nth=3
    )  # after the first call's check, and the second's proposal
    await client.allow_and_rule(first["id"], scope="run", when={"name": {"equals": "ruled"}})
    await look.reached()
    world.documents.write("ruled", "two")
    look.open()
    asked = await client.open_wait(run["id"])
    assert asked["evidence"] == {"version": version + 1}
    assert str(version) in asked["question"]
    assert world.effects.count("edit") == 1
    superseded = [w for w in await client.waits(run["id"]) if w["state"] == "superseded"]
    assert [wait["resolved_via"] for wait in superseded] == ["rule"]
    await client.allow(asked["id"])
    await client.succeeded(run["id"])
    assert world.effects.count("edit") == 2


async def test_a_rule_is_made_with_its_approval_or_not_at_all(world: World, client: Client) -> None:
    run = await client.submit(use("refund", ref="unmade"), say("x"), session="unmade")
    wait = await client.open_wait(run["id"])
    for rule in (
        {"scope": "session", "when": {}, "tool": "refund_once"},
        {"scope": "session", "when": {"colour": {"equals": "red"}}},
        {"scope": "session", "when": {}, "expires_at": "2020-01-01T00:00:00Z"},
    ):
        refused = await client.resolve(wait["id"], {"decision": "allow", "rule": rule})
        assert (refused.status_code, refused.json()["type"]) == (422, "/problems/invalid-request")
    denied = {"decision": "deny", "rule": {"scope": "session", "when": {}}}
    assert (await client.resolve(wait["id"], denied)).status_code == 422
    assert await client.open_wait(run["id"]) == wait
    assert world.payments.calls_for("unmade") == []
    await client.deny(wait["id"])
    await client.succeeded(run["id"])
    assert [rule for rule in await client.rules() if rule["session"] == "unmade"] == []
