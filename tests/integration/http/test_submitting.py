import json
from dataclasses import replace

import httpx
import pytest

from app.delivery.hub import Hub
from app.http.application import build
from app.http.parts import Parts
from app.services.context import Services
from tests.integration.http.conftest import BASE_URL
from tests.integration.http.questions import DONE, working
from tests.integration.http.rows import Rows
from tests.integration.http.test_runs import get
from tests.unit.http.bad_bodies import OTHER_BODIES, RUN_BODIES

RUN = {"agent": "refund-desk", "input": "hello"}
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
TABLES = ("runs", "sessions", "targets", "events", "idempotency", "messages", "waits", "rules")


async def test_a_run_is_accepted(http: httpx.AsyncClient) -> None:
    headers = {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01", "Prefer": "respond-async"}

    response = await http.post("/v1/runs", json=RUN, headers=headers)

    run = response.json()
    assert response.status_code == 202
    assert response.headers["location"] == f"/v1/runs/{run['id']}"
    assert response.headers["preference-applied"] == "respond-async"
    assert (run["status"], run["input"], run["trace_id"]) == ("queued", "hello", TRACE)
    assert run == await get(http, f"/v1/runs/{run['id']}")


async def test_what_was_asked_is_what_is_shown(http: httpx.AsyncClient) -> None:
    asked = {
        "input": [{"type": "text", "text": "\u2028 \U0001f600", "n": 1.0}],
        "session": "my-session",
        "target": "order 7",
        "priority": 2,
        "queue_key": "acme/eu",
        "deadline": "2099-01-01T01:00:00+01:00",
        "metadata": {"a": "b"},
        "limits": {"turns": 3, "cost_usd": 0.25, "seconds": 1.5, "calls": 4, "tokens": 5},
    }

    run = (await http.post("/v1/runs", json=RUN | asked)).json()

    assert run["input"] == asked["input"]
    assert (run["session"], run["target"], run["metadata"]) == ("my-session", "order 7", {"a": "b"})
    assert (run["priority"], run["queue_key"]) == (2, "acme/eu")
    assert run["deadline"] == "2099-01-01T00:00:00.000000Z"
    assert run["limits"] == {
        "turns": 3,
        "cost_usd": "0.25",
        "seconds": 1.5,
        "calls": 4,
        "tokens": 5,
    }


async def test_a_run_without_a_queue_key_counts_for_its_caller(http: httpx.AsyncClient) -> None:
    assert (await http.post("/v1/runs", json=RUN)).json()["queue_key"] == "local"


async def test_a_queue_that_is_full_takes_no_more(
    http: httpx.AsyncClient, services: Services, rows: Rows
) -> None:
    app = build(Parts(replace(services, queue_limit=2), Hub(services.database), bool), key=None)
    key = {"Idempotency-Key": "k1"}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=BASE_URL) as full:
        kept = [await full.post("/v1/runs", json=RUN, headers=headers) for headers in (key, {})]

        refused = await full.post("/v1/runs", json=RUN, headers={"Idempotency-Key": "k2"})

        assert (refused.status_code, refused.json()["type"]) == (429, "/problems/queue-full")
        assert int(refused.headers["retry-after"]) > 0
        assert [await rows.count(table) for table in ("runs", "sessions", "idempotency")] == [
            2,
            2,
            1,
        ]
        again = await full.post("/v1/runs", json=RUN, headers=key)
        assert (again.status_code, again.json()["id"]) == (200, kept[0].json()["id"])
        session = {"session": kept[1].json()["session"], "on_busy": "return_existing"}
        assert (await full.post("/v1/runs", json=RUN | session)).status_code == 200
        other = await full.post("/v1/runs", json=RUN | {"queue_key": "other"})
        assert other.status_code == 202
        await rows.end(kept[0].json()["id"])
        freed = await full.post("/v1/runs", json=RUN, headers={"Idempotency-Key": "k2"})
        assert freed.status_code == 202


async def test_an_unknown_agent_is_refused(http: httpx.AsyncClient, rows: Rows) -> None:
    response = await http.post("/v1/runs", json=RUN | {"agent": "nobody"})

    assert response.status_code == 422
    assert response.json()["type"] == "/problems/agent-not-found"
    assert await rows.count("runs") == 0


async def test_a_key_is_spent_once(http: httpx.AsyncClient, rows: Rows) -> None:
    first = await http.post("/v1/runs", json=RUN, headers={"Idempotency-Key": "k1"})
    same = json.dumps(dict(reversed(RUN.items())), indent=1)
    headers = {"Idempotency-Key": '"k1"', "Content-Type": "application/json"}

    again = await http.post("/v1/runs", content=same, headers=headers)
    other = await http.post("/v1/runs", json=RUN | {"queue_key": "a"}, headers=headers)

    assert (first.status_code, again.status_code) == (202, 200)
    assert again.json()["id"] == first.json()["id"]
    assert again.headers["idempotent-replayed"] == "true"
    assert "idempotent-replayed" not in first.headers
    assert other.status_code == 422
    assert other.json()["type"] == "/problems/idempotency-key-reused"
    assert await rows.count("runs") == 1


async def test_an_active_run_is_returned(http: httpx.AsyncClient) -> None:
    body = RUN | {"session": "s1", "on_busy": "return_existing"}

    first = await http.post("/v1/runs", json=body)
    second = await http.post("/v1/runs", json=body)

    assert (first.status_code, second.status_code) == (202, 200)
    assert second.json()["id"] == first.json()["id"]


async def test_a_deadline_that_has_passed_is_refused(http: httpx.AsyncClient, rows: Rows) -> None:
    response = await http.post("/v1/runs", json=RUN | {"deadline": "2020-01-01T00:00:00Z"})

    assert response.status_code == 422
    assert response.json()["errors"][0]["field"] == "deadline"
    assert await rows.count("runs") == 0


async def test_a_replay_after_the_deadline_is_answered(http: httpx.AsyncClient, rows: Rows) -> None:
    body = RUN | {"deadline": "2020-01-01T00:00:00Z"}
    headers = {"Idempotency-Key": "late"}
    accepted = await rows.run()
    await rows.execute(
        "insert into perdure.idempotency (caller, key, fingerprint, run) values (%s, %s, %s, %s)",
        "local",
        "late",
        "not this body's",
        accepted,
    )

    response = await http.post("/v1/runs", json=body, headers=headers)

    assert response.json()["type"] == "/problems/idempotency-key-reused"


async def test_bad_input_stores_nothing(http: httpx.AsyncClient, rows: Rows) -> None:
    headers = {"Content-Type": "application/json", "Idempotency-Key": "k"}

    for _, body, _ in RUN_BODIES:
        assert (await http.post("/v1/runs", content=body, headers=headers)).status_code == 422
    for _, path, body, _ in OTHER_BODIES:
        answer = await http.post(path, content=body, headers=headers)
        assert answer.status_code in (404, 422)

    for table in TABLES:
        assert await rows.count(table) == 0, table


async def test_a_cancelled_run_is_shown_as_it_is(http: httpx.AsyncClient) -> None:
    run = (await http.post("/v1/runs", json=RUN)).json()["id"]

    response = await http.post(f"/v1/runs/{run}/cancel")

    assert (response.status_code, response.json()["status"]) == (202, "cancelled")
    again = await http.post(f"/v1/runs/{run}/cancel", json={"reason": "twice"})
    assert (again.status_code, again.json()["type"]) == (409, "/problems/run-ended")


@pytest.mark.parametrize(
    ("query", "status", "undone"),
    [
        ("?compensate=true", "cancelling", True),
        ("?compensate=false", "cancelled", False),
        ("", "cancelled", False),
    ],
)
async def test_a_cancel_may_undo_what_was_done(
    http: httpx.AsyncClient, rows: Rows, query: str, status: str, undone: bool
) -> None:
    run = await working(rows, status="waiting", turns=1)
    await rows.call(run, tool="pay", state="succeeded", replay="idempotent", **DONE)
    await rows.wait(run, kind="timer")

    response = await http.post(f"/v1/runs/{run}/cancel{query}", json={"reason": "wrong order"})

    assert (response.status_code, response.json()["status"]) == (202, status)
    first = (await get(http, f"/v1/runs/{run}/events"))["data"][0]
    assert (first["type"], first["data"]["compensate"]) == ("run.cancelling", undone)
    assert (first["data"]["by"], first["data"]["reason"]) == ("local", "wrong order")


async def test_a_message_is_sent_listed_and_withdrawn(http: httpx.AsyncClient) -> None:
    run = (await http.post("/v1/runs", json=RUN)).json()["id"]

    sent = await http.post(f"/v1/runs/{run}/messages", json={"text": "hurry"})
    listed = await get(http, f"/v1/runs/{run}/messages")
    withdrawn = await http.delete(f"/v1/runs/{run}/messages/{sent.json()['id']}")

    assert sent.status_code == 202
    assert listed["data"] == [sent.json()]
    assert (withdrawn.status_code, withdrawn.json()) == (200, sent.json())
    assert (await get(http, f"/v1/runs/{run}/messages"))["data"] == []
    assert (await http.delete(f"/v1/runs/{run}/messages/msg_none")).status_code == 404


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_a_read_may_be_a_head(http: httpx.AsyncClient, rows: Rows, method: str) -> None:
    run = await rows.run()

    response = await http.request(method, f"/v1/runs/{run}")

    assert response.status_code == 200
    assert int(response.headers["content-length"]) > 500
    assert bool(response.content) == (method == "GET")
