from typing import Any, get_args

import httpx

from app.domain.states import WaitKind, WaitState
from app.http.schemas import answers
from tests.integration.http.rows import Rows
from tests.integration.http.test_runs import get

STORED = {
    "state": "resolved",
    "arguments": {"cents": 5},
    "arguments_hash": "h",
    "evidence": [1],
    "deadline": "2030-01-01T00:00:00Z",
    "resolution": {"decision": "allow"},
    "resolved_by": "local",
    "on_behalf_of": "ann",
    "resolved_via": "http",
    "resolved_at": "2030-01-02T00:00:00Z",
    "created_at": "2029-01-01T00:00:00Z",
}
SHOWN = {
    "id": "wait_1",
    "run": "run_1",
    "kind": "approval",
    "state": "resolved",
    "call": "call_1_1_0",
    "tool": "pay",
    "question": "May it?",
    "arguments": {"cents": 5},
    "arguments_hash": "h",
    "evidence": [1],
    "deadline": "2030-01-01T00:00:00.000000Z",
    "resolution": {"decision": "allow"},
    "rule": None,
    "resolved_by": "local",
    "on_behalf_of": "ann",
    "resolved_via": "http",
    "resolved_at": "2030-01-02T00:00:00.000000Z",
    "created_at": "2029-01-01T00:00:00.000000Z",
}


async def test_a_wait_shows_every_field_of_the_contract(
    http: httpx.AsyncClient, rows: Rows
) -> None:
    await rows.run("run_1")
    wait = await rows.wait("run_1", call=await rows.call("run_1"), **STORED)

    shown = await get(http, f"/v1/waits/{wait}")

    answers.Wait.model_validate(shown)
    assert shown == SHOWN


async def test_waits_are_filtered(http: httpx.AsyncClient, rows: Rows) -> None:
    run = await rows.run()
    child = await rows.run(parent=run, root=run)
    other = await rows.run()
    approval = await rows.wait(run, created_at="2030-01-01")
    timer = await rows.wait(child, kind="timer", created_at="2030-01-02")
    closed = await rows.wait(
        child, state="expired", resolved_at="2030-01-03", created_at="2030-01-03"
    )
    elsewhere = await rows.wait(other, created_at="2030-01-04")

    async def ids(query: str) -> list[str]:
        return [wait["id"] for wait in (await get(http, f"/v1/waits?{query}"))["data"]]

    assert await ids("") == [elsewhere, closed, timer, approval]
    assert await ids(f"run={run}") == [closed, timer, approval]
    assert await ids(f"run={child}") == [closed, timer]
    assert await ids("kind=approval&state=open") == [elsewhere, approval]
    assert await ids(f"run={run}&state=expired") == [closed]
    assert await ids("run=run_none") == []


async def test_every_kind_and_state_can_be_asked_for(http: httpx.AsyncClient, rows: Rows) -> None:
    run = await rows.run()
    child = await rows.run(parent=run, root=run)
    places = [(kind, state) for kind in get_args(WaitKind) for state in get_args(WaitState)]
    for kind, state in places:
        resolved_at = None if state == "open" else "2030-01-01"
        await rows.wait(child, kind=kind, state=state, resolved_at=resolved_at)

    for kind, state in places:
        found = (await get(http, f"/v1/waits?run={run}&kind={kind}&state={state}"))["data"]
        assert [(wait["kind"], wait["state"]) for wait in found] == [(kind, state)]


async def test_waits_are_paged(http: httpx.AsyncClient, rows: Rows) -> None:
    run = await rows.run()
    made = [await rows.wait(run, kind="timer", created_at="2030-01-01") for _ in range(3)]

    first = await get(http, f"/v1/waits?run={run}&limit=2")
    second = await get(http, f"/v1/waits?run={run}&limit=2&after={first['next']}")

    shown = [wait["id"] for wait in first["data"] + second["data"]]
    assert (shown, second["next"]) == (made[::-1], None)


async def test_an_unknown_wait_or_call_is_not_found(http: httpx.AsyncClient) -> None:
    decision = {"decision": "allow"}

    assert (await http.get("/v1/waits/wait_none")).status_code == 404
    assert (await http.post("/v1/waits/wait_none/resolve", json=decision)).status_code == 404
    body = {"outcome": "did_not_happen"}
    assert (await http.post("/v1/calls/call_none/settle", json=body)).status_code == 404


async def test_unknown_outcomes_that_nobody_has_settled_are_listed(
    http: httpx.AsyncClient, rows: Rows
) -> None:
    begun: dict[str, Any] = {"state": "outcome_unknown", "arguments": {}, "replay": "at_most_once"}
    run, other = await rows.run(), await rows.run()
    first = await rows.call(run, **begun, created_at="2030-01-01")
    second = await rows.call(other, **begun, tool="wire", created_at="2030-01-02")
    await rows.call(other, index=1, **begun, skipped=True)
    await rows.call(other, index=2, **begun | {"state": "started"})

    async def ids(filters: str) -> list[str]:
        found = (await get(http, f"/v1/calls?state=outcome_unknown&{filters}"))["data"]
        return [answers.Call.model_validate(call).id for call in found]

    assert await ids("") == [second, first]
    assert await ids(f"run={run}") == [first]
    assert await ids("tool=wire") == [second]
    assert await ids(f"session=ses_{run}") == [first]
    for query in ("", "?state=started"):
        refused = (await http.get(f"/v1/calls{query}")).json()
        assert refused["errors"][0]["field"] == "state"


async def test_a_resolution_of_another_kind_is_refused(http: httpx.AsyncClient, rows: Rows) -> None:
    run = await rows.run(status="waiting")
    approval = await rows.wait(run)
    timer = await rows.wait(run, kind="timer")

    for wait, body in ((approval, {"text": "yes"}), (timer, {"decision": "allow"})):
        response = await http.post(f"/v1/waits/{wait}/resolve", json=body)
        assert response.status_code == 422, response.text
        assert (await get(http, f"/v1/waits/{wait}"))["state"] == "open"
