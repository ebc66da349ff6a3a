from datetime import datetime
from typing import Any

import httpx
import pytest

from app.http.schemas import answers
from tests.integration.http.questions import Asked, ask
from tests.integration.http.rows import Rows
from tests.integration.http.test_runs import get

RULE: dict[str, Any] = {"scope": "session", "when": {"amount": {"max": 10}}}
ALLOW = {"decision": "allow"}


async def grant(
    http: httpx.AsyncClient, asked: Asked, rule: object = RULE, **said: Any
) -> httpx.Response:
    return await http.post(asked.path, json=ALLOW | {"rule": rule} | said)


async def listed(http: httpx.AsyncClient, query: str = "") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await get(http, f"/v1/rules?{query}"))["data"]
    return found


async def test_a_rule_is_made_with_the_approval(http: httpx.AsyncClient, rows: Rows) -> None:
    asked = await ask(rows)
    rule = RULE | {"tool": "refund", "expires_at": "2099-01-01T01:00:00+01:00"}

    response = await grant(http, asked, rule, on_behalf_of="ann", reason="fine")

    assert response.status_code == 200, response.text
    assert response.json()["resolution"] == ALLOW | {"rule": rule, "reason": "fine"}
    (made,) = await listed(http)
    assert made["id"] == response.json()["rule"]
    answers.Rule.model_validate(made)
    assert datetime.fromisoformat(made.pop("created_at")).utcoffset() is not None
    assert made.pop("id").startswith("rule_")
    assert made == {
        "scope": "session",
        "agent": "desk",
        "session": f"ses_{asked.run}",
        "run": asked.run,
        "tool": "refund",
        "when": {"amount": {"max": 10}},
        "wait": asked.wait,
        "author": "local",
        "on_behalf_of": "ann",
        "made_via": "http",
        "state": "standing",
        "expires_at": "2099-01-01T00:00:00.000000Z",
        "revoked_at": None,
        "revoked_by": None,
    }


async def test_the_same_approval_again_makes_no_second_rule(
    http: httpx.AsyncClient, rows: Rows
) -> None:
    asked = await ask(rows)
    first = await grant(http, asked)

    again = await grant(http, asked)
    late = await grant(http, asked, RULE | {"expires_at": "2020-01-01T00:00:00Z"})

    assert [again.status_code, late.status_code] == [200, 200]
    assert first.json() == again.json() == late.json()
    assert await rows.count("rules") == 1


async def test_a_rule_that_comes_too_late_is_not_made(http: httpx.AsyncClient, rows: Rows) -> None:
    denied, changed = await ask(rows), await ask(rows)
    expired = await ask(rows, deadline="2020-01-01")
    await http.post(denied.path, json={"decision": "deny"})

    refused = [
        await grant(http, denied),
        await grant(http, expired),
        await grant(http, changed, arguments_hash="other"),
    ]

    assert [response.status_code for response in refused] == [409, 410, 409]
    assert await rows.count("rules") == 0


BAD_RULES: list[tuple[str, Any, str]] = [
    ("a list", [], "rule"),
    ("text", "always", "rule"),
    ("nothing", {}, "rule.scope rule.when"),
    ("no scope", {"when": {}}, "rule.scope"),
    ("an unknown scope", RULE | {"scope": "world"}, "rule.scope"),
    ("scope null", RULE | {"scope": None}, "rule.scope"),
    ("no conditions", {"scope": "run"}, "rule.when"),
    ("conditions null", RULE | {"when": None}, "rule.when"),
    ("conditions in a list", RULE | {"when": [{"amount": {"max": 1}}]}, "rule.when"),
    (
        "an argument the tool has not",
        RULE | {"when": {"colour": {"equals": 1}}},
        "rule.when.colour",
    ),
    ("a nested argument", RULE | {"when": {"order.id": {"equals": 1}}}, "rule.when.order.id"),
    ("an argument without a name", RULE | {"when": {"": {"max": 1}}}, "rule.when."),
    ("no operator", RULE | {"when": {"amount": {}}}, "rule.when.amount"),
    ("a bound without operator", RULE | {"when": {"amount": 10}}, "rule.when.amount"),
    ("an unknown operator", RULE | {"when": {"amount": {"below": 10}}}, "rule.when.amount.below"),
    ("the operator's other name", RULE | {"when": {"note": {"in_": ["a"]}}}, "rule.when.note.in_"),
    ("max of text", RULE | {"when": {"amount": {"max": "10"}}}, "rule.when.amount.max"),
    ("max of truth", RULE | {"when": {"amount": {"max": True}}}, "rule.when.amount.max"),
    ("max of nothing", RULE | {"when": {"amount": {"max": None}}}, "rule.when.amount.max"),
    ("min of a list", RULE | {"when": {"amount": {"min": [1]}}}, "rule.when.amount.min"),
    ("in text", RULE | {"when": {"note": {"in": "abc"}}}, "rule.when.note.in"),
    ("in nothing", RULE | {"when": {"note": {"in": None}}}, "rule.when.note.in"),
    ("in an empty list", RULE | {"when": {"note": {"in": []}}}, "rule.when.note.in"),
    ("another tool", RULE | {"tool": "pay"}, "rule.tool"),
    ("a tool that is a number", RULE | {"tool": 1}, "rule.tool"),
    ("expired", RULE | {"expires_at": "2020-01-01T00:00:00Z"}, "rule.expires_at"),
    ("a day", RULE | {"expires_at": "2099-01-01"}, "rule.expires_at"),
    ("more", RULE | {"author": "ann"}, "rule.author"),
]


@pytest.mark.parametrize(
    ("rule", "fields"), [pytest.param(*case[1:], id=case[0]) for case in BAD_RULES]
)
async def test_a_bad_rule_is_refused_by_field_and_nothing_is_resolved(
    http: httpx.AsyncClient, rows: Rows, rule: object, fields: str
) -> None:
    asked = await ask(rows)

    response = await grant(http, asked, rule)

    assert response.status_code == 422, response.text
    assert response.json()["type"] == "/problems/invalid-request"
    assert " ".join(error["field"] for error in response.json()["errors"]) == fields
    assert (await get(http, f"/v1/waits/{asked.wait}"))["state"] == "open"
    assert (await get(http, f"/v1/runs/{asked.run}"))["status"] == "waiting"
    assert [await rows.count("rules"), await rows.count("events")] == [0, 0]


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("approval", {"decision": "deny"}),
        ("outcome", {"outcome": "skip"}),
        ("input", {"text": "blue"}),
        ("external", {"result": 1}),
    ],
)
async def test_only_an_approval_that_allows_makes_a_rule(
    http: httpx.AsyncClient, rows: Rows, kind: str, said: dict[str, Any]
) -> None:
    asked = await ask(rows, kind=kind)

    response = await http.post(asked.path, json=said | {"rule": RULE})

    assert response.status_code == 422, response.text
    assert [error["field"] for error in response.json()["errors"]] == ["rule"]
    assert await rows.count("rules") == 0


@pytest.mark.parametrize(
    "when",
    [
        {},
        {"amount": {"max": 10, "min": -1.5}},
        {"note": {"equals": None}, "order": {"in": ["A", 1, {"a": [True]}, None]}},
        {"amount": {"max": 10**40, "min": 5e-324}},
    ],
)
async def test_conditions_come_back_as_they_went_in(
    http: httpx.AsyncClient, rows: Rows, when: dict[str, Any]
) -> None:
    response = await grant(http, await ask(rows), {"scope": "agent", "when": when, "tool": None})

    assert response.status_code == 200, response.text
    assert (await listed(http))[0]["when"] == when


async def test_what_the_agent_of_the_run_declares_decides(
    http: httpx.AsyncClient, rows: Rows
) -> None:
    asked = await ask(rows)
    await rows.execute(
        """insert into perdure.agent_versions (agent, version, definition)
           values ('desk', 'newer', '{"tools": [{"name": "refund", "input_schema": {}}]}')"""
    )
    await rows.execute("update perdure.agents set version = 'newer' where name = 'desk'")

    assert (await grant(http, asked)).status_code == 200


async def test_rules_are_filtered_and_paged(http: httpx.AsyncClient, rows: Rows) -> None:
    first, second = await ask(rows), await ask(rows, tool="pay")
    for asked in (first, second):
        assert (await grant(http, asked, {"scope": "run", "when": {}})).status_code == 200
    await rows.execute("update perdure.rules set created_at = '2030-01-01'")

    page = await get(http, "/v1/rules?limit=1")
    rest = await get(http, f"/v1/rules?limit=1&after={page['next']}")

    found = page["data"] + rest["data"]
    assert sorted(rule["wait"] for rule in found) == sorted([first.wait, second.wait])
    assert rest["next"] is None
    assert [rule["wait"] for rule in await listed(http, "tool=pay")] == [second.wait]
    assert [rule["wait"] for rule in await listed(http, f"session=ses_{first.run}")] == [first.wait]
    assert len(await listed(http, "agent=desk")) == 2
    assert await listed(http, "agent=other&tool=pay") == []
    foreign = await http.get(f"/v1/rules?tool=pay&after={page['next']}")
    assert (foreign.status_code, foreign.json()["errors"][0]["field"]) == (422, "after")


async def test_a_rule_is_revoked_once_and_stays_listed(http: httpx.AsyncClient, rows: Rows) -> None:
    await grant(http, await ask(rows))
    (made,) = await listed(http)

    revoked = await http.delete(f"/v1/rules/{made['id']}")
    await rows.execute("update perdure.rules set revoked_by = 'ann'")
    again = await http.delete(f"/v1/rules/{made['id']}")

    assert (revoked.status_code, again.status_code) == (200, 200)
    moment = revoked.json()["revoked_at"]
    assert moment is not None
    gone = {"state": "revoked", "revoked_by": "local", "revoked_at": moment}
    assert revoked.json() == made | gone
    assert again.json() == made | gone | {"revoked_by": "ann"}
    assert await listed(http) == [again.json()]


async def test_an_expired_rule_says_so(http: httpx.AsyncClient, rows: Rows) -> None:
    await grant(http, await ask(rows))
    await rows.execute("update perdure.rules set expires_at = '2020-01-01'")

    assert [rule["state"] for rule in await listed(http)] == ["expired"]


async def test_an_unknown_rule_is_not_found(http: httpx.AsyncClient) -> None:
    response = await http.delete("/v1/rules/rule_none")

    assert (response.status_code, response.json()["type"]) == (404, "/problems/not-found")
