import json
from datetime import datetime
from typing import Any

import httpx
import pytest

from app.http.schemas import answers
from tests.integration.http.rows import Rows

Json = dict[str, Any]


async def get(http: httpx.AsyncClient, path: str) -> Json:
    response = await http.get(path)
    assert response.status_code == 200, response.text
    found: Json = response.json()
    return found


STORED = {
    "status": "waiting",
    "input": [{"type": "text", "text": "hi"}],
    "target": "order-7",
    "metadata": {"ticket": "42"},
    "limits": {"turns": 50, "tokens": 1000, "cost_usd": "0.5", "seconds": 60, "calls": 9},
    "priority": 3,
    "queue_key": "acme",
    "leg": 2,
    "legs_started": 1,
    "attempt": 1,
    "turns": 2,
    "model_calls": 3,
    "repaid_model_calls": 1,
    "input_tokens": 100,
    "output_tokens": 20,
    "cache_read_tokens": 7,
    "cache_write_tokens": 8,
    "cost_usd": "0.123456",
    "active_seconds": 1.5,
    "created_at": "2030-01-01 00:00:00+00",
    "started_at": "2030-01-02 03:04:05.678901+02",
}
SHOWN = {
    "id": "run_1",
    "agent": "desk",
    "agent_version": "v1",
    "session": "ses_run_1",
    "parent": None,
    "root": "run_1",
    "children": [],
    "forked_from": None,
    "status": "waiting",
    "reason": None,
    "stalled": None,
    "waiting_for": [],
    "input": [{"type": "text", "text": "hi"}],
    "output": None,
    "error": None,
    "target": "order-7",
    "metadata": {"ticket": "42"},
    "priority": 3,
    "queue_key": "acme",
    "deadline": None,
    "turns": 2,
    "leg": 1,
    "attempt": 1,
    "worker": None,
    "usage": {
        "model_calls": 3,
        "repaid_model_calls": 1,
        "input_tokens": 100,
        "output_tokens": 20,
        "cache_read_tokens": 7,
        "cache_write_tokens": 8,
        "cost_usd": "0.1235",
    },
    "limits": {"turns": 50, "tokens": 1000, "cost_usd": "0.5", "seconds": 60, "calls": 9},
    "limits_left": {
        "turns": 48,
        "tokens": 880,
        "cost_usd": "0.3765",
        "seconds": 58.5,
        "calls": 9,
    },
    "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736",
    "effects": [],
    "created_at": "2030-01-01T00:00:00.000000Z",
    "started_at": "2030-01-02T01:04:05.678901Z",
    "finished_at": None,
}


async def test_a_run_shows_every_field_of_the_contract(http: httpx.AsyncClient, rows: Rows) -> None:
    await rows.run("run_1", **STORED)

    shown = await get(http, "/v1/runs/run_1")

    answers.Run.model_validate(shown)
    assert shown == SHOWN


async def test_only_what_is_limited_has_something_left(http: httpx.AsyncClient, rows: Rows) -> None:
    run = await rows.run(limits={"turns": 3, "tokens": None}, turns=5)

    shown = await get(http, f"/v1/runs/{run}")

    assert shown["limits"] == {
        "turns": 3,
        "tokens": None,
        "cost_usd": None,
        "seconds": None,
        "calls": None,
    }
    assert shown["limits_left"] == {"turns": 0}


async def test_what_was_started_below_a_run_draws_on_its_limits(
    http: httpx.AsyncClient, rows: Rows
) -> None:
    limits = {"turns": 10, "tokens": 100, "cost_usd": "1", "seconds": 60, "calls": 9}
    used: Json = {"turns": 2, "input_tokens": 20, "output_tokens": 3}
    spent: Json = {"cost_usd": "0.1", "active_seconds": 5}
    top = await rows.run(limits=limits, **used, **spent)
    child = await rows.run(parent=top, root=top, limits={"turns": 3}, **used, **spent)
    grandchild = await rows.run(parent=child, root=top, **used, **spent)
    await rows.call(grandchild, 1, state="failed", finished_at="2020-01-01")
    await rows.run(limits=limits, **used)

    async def left(run: str) -> Json:
        found: Json = (await get(http, f"/v1/runs/{run}"))["limits_left"]
        return found

    # With the two calls that delegated.
    assert await left(top) == {
        "turns": 4,
        "tokens": 31,
        "cost_usd": "0.7000",
        "seconds": 45,
        "calls": 6,
    }
    assert await left(child) == {"turns": 0}
    assert (await get(http, f"/v1/runs/{child}"))["usage"]["input_tokens"] == 20
    (listed,) = (run for run in (await get(http, "/v1/runs"))["data"] if run["id"] == top)
    assert listed["limits_left"]["turns"] == 4


async def test_active_time_runs_on_while_a_run_is_active(
    http: httpx.AsyncClient, rows: Rows
) -> None:
    run = await rows.run(limits={"turns": 1, "seconds": 100}, status="running", active_seconds=10)
    await rows.execute(
        "update perdure.runs set active_since = now() - interval '20s' where id = %s", run
    )

    left = (await get(http, f"/v1/runs/{run}"))["limits_left"]["seconds"]

    assert 60 < left <= 70


async def test_a_run_waits_for_its_descendants_too(http: httpx.AsyncClient, rows: Rows) -> None:
    top = await rows.run(status="waiting")
    child = await rows.run(parent=top, root=top, status="waiting")
    grandchild = await rows.run(parent=child, root=top, status="waiting")
    await rows.run()
    call = await rows.call(grandchild, turn=2, index=1, state="waiting")
    own = await rows.wait(top, kind="child")
    deep = await rows.wait(
        grandchild,
        call=call,
        arguments={"cents": 5, "note": "\x00\ud800"},
        arguments_hash="h",
        evidence={"v": 1},
        deadline="2030-01-01 00:00:00+02",
    )
    await rows.wait(grandchild, state="cancelled", resolved_at="2020-01-01")

    shown = await get(http, f"/v1/runs/{top}")

    assert shown["children"] == [child]
    assert [wait["id"] for wait in shown["waiting_for"]] == [own, deep]
    assert shown["waiting_for"][0]["idempotency_key"] is None
    assert shown["waiting_for"][1] == {
        "id": deep,
        "run": grandchild,
        "kind": "approval",
        "call": call,
        "tool": "pay",
        "question": "May it?",
        "arguments": {"cents": 5, "note": "\x00\ud800"},
        "arguments_hash": "h",
        "idempotency_key": f"{grandchild}/2/1",
        "evidence": {"v": 1},
        "deadline": "2029-12-31T22:00:00.000000Z",
    }
    assert [wait["id"] for wait in (await get(http, f"/v1/runs/{child}"))["waiting_for"]] == [deep]
    answers.Run.model_validate(shown)


async def test_text_that_postgres_text_refuses_comes_back_as_it_went_in(
    http: httpx.AsyncClient, rows: Rows
) -> None:
    text = "a\x00b \ud800 \\u0000 \U0001f600"
    run = await rows.run(input=text, output={"text": text}, error={"type": "x", "detail": text})

    response = await http.get(f"/v1/runs/{run}")

    shown = json.loads(response.content)
    assert (shown["input"], shown["output"]["text"], shown["error"]["detail"]) == (text,) * 3


@pytest.mark.parametrize(
    ("status", "held", "stalled"),
    [
        ("queued", False, "no live worker"),
        ("running", False, "no live worker"),
        ("cancelling", False, "no live worker"),
        ("queued", True, None),
        ("waiting", False, None),
    ],
)
async def test_without_a_worker_what_should_move_is_stalled(
    http: httpx.AsyncClient, rows: Rows, status: str, held: bool, stalled: str | None
) -> None:
    await rows.worker("without-lease", "desk", alive=False)
    await rows.worker("dead", "desk", dead_at="2020-01-01", death="proved")
    run = await rows.run(status=status, held=held)

    assert (await get(http, f"/v1/runs/{run}"))["stalled"] == stalled
    (listed,) = (await get(http, "/v1/runs"))["data"]
    assert listed["stalled"] == stalled


async def test_a_run_is_stalled_while_no_live_worker_has_its_agent(
    http: httpx.AsyncClient, rows: Rows
) -> None:
    run = await rows.run(agent="desk")
    await rows.worker("w1", "other", "third")

    assert (await get(http, f"/v1/runs/{run}"))["stalled"] == "no worker has agent desk"

    await rows.worker("w2", "desk")
    assert (await get(http, f"/v1/runs/{run}"))["stalled"] is None


async def test_a_worker_is_shown_only_while_it_has_the_run(
    http: httpx.AsyncClient, rows: Rows
) -> None:
    run = await rows.run(status="running", owner="w1")
    assert (await get(http, f"/v1/runs/{run}"))["worker"] == "w1"

    await rows.end(run)
    assert (await get(http, f"/v1/runs/{run}"))["worker"] is None


async def test_an_unknown_run_is_not_found(http: httpx.AsyncClient) -> None:
    for path in ("", "/turns", "/calls", "/events", "/messages"):
        response = await http.get(f"/v1/runs/run_none{path}")
        assert response.status_code == 404
        assert "run_none" in response.json()["detail"]


async def test_moments_are_read_as_rfc_3339(http: httpx.AsyncClient, rows: Rows) -> None:
    run = await rows.run(deadline="2030-06-01 12:00:00+00")

    shown = await get(http, f"/v1/runs/{run}")

    assert shown["deadline"] == "2030-06-01T12:00:00.000000Z"
    assert datetime.fromisoformat(shown["created_at"]).utcoffset() is not None
