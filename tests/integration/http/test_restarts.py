import asyncio
from typing import Any

import httpx
import pytest

from app.http.schemas import answers
from tests.integration.http.questions import DONE, working
from tests.integration.http.rows import Rows
from tests.integration.http.test_runs import get

STOPPED = {
    "status": "failed",
    "reason": "limit_turns",
    "error": {"type": "limit_turns", "detail": "Used up."},
    "finished_at": "2020-01-01",
    "limits": {"turns": 2, "tokens": 1000},
    "turns": 2,
    "legs_started": 1,
    "leg": 2,
}


async def post(
    http: httpx.AsyncClient, path: str, body: object = None, **headers: str
) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await http.post(path, json=body, headers=named)


def told(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["type"].removeprefix("/problems/")


async def test_a_run_goes_on_under_a_raised_limit(http: httpx.AsyncClient, rows: Rows) -> None:
    run = await working(rows, **STOPPED)

    response = await post(http, f"/v1/runs/{run}/resume", {"limits": {"turns": 3, "tokens": None}})

    assert response.status_code == 202, response.text
    shown = response.json()
    answers.Run.model_validate(shown)
    assert [shown[name] for name in ("status", "reason", "error", "finished_at")] == [
        "queued",
        None,
        None,
        None,
    ]
    assert (shown["limits"]["turns"], shown["limits_left"]) == (3, {"turns": 1})
    assert shown == await get(http, f"/v1/runs/{run}")
    legs = await rows.execute("select workflow_uuid from dbos.workflow_status")
    assert legs == [(f"{run}:2",)]
    (event,) = (await get(http, f"/v1/runs/{run}/events"))["data"]
    assert (event["type"], event["data"]["by"]) == ("run.resumed", "local")


@pytest.mark.parametrize("body", [None, {}, {"limits": {}}])
async def test_a_dead_letter_is_resumed_without_a_word(
    http: httpx.AsyncClient, rows: Rows, body: object
) -> None:
    run = await working(rows, status="dead_letter", reason="internal", finished_at="2020-01-01")

    assert (await post(http, f"/v1/runs/{run}/resume", body)).status_code == 202


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"status": "running"}, "not-resumable"),
        ({"status": "succeeded", "finished_at": "2020-01-01"}, "not-resumable"),
        ({"status": "cancelled", "finished_at": "2020-01-01"}, "not-resumable"),
        ({"status": "failed", "reason": "internal", "finished_at": "2020-01-01"}, "not-resumable"),
        (STOPPED | {"limits": {"turns": 9}, "deadline": "2020-01-01"}, "not-resumable"),
    ],
)
async def test_what_was_not_stopped_is_not_resumed(
    http: httpx.AsyncClient, rows: Rows, values: dict[str, Any], problem: str
) -> None:
    run = await working(rows, **values)

    assert told(await post(http, f"/v1/runs/{run}/resume")) == (409, problem)
    assert await rows.count("events") == 0


async def test_a_run_is_not_resumed_beside_another_or_behind_its_parent(
    http: httpx.AsyncClient, rows: Rows
) -> None:
    raised = {"limits": {"turns": 9}}
    run = await working(rows, session="s", **STOPPED)
    other = await working(rows, session="s")
    child = await working(rows, parent=run, root=run, **STOPPED)

    busy = await post(http, f"/v1/runs/{run}/resume", raised)
    assert (told(busy), busy.json()["run"]) == ((409, "target-busy"), other)
    assert told(await post(http, f"/v1/runs/{child}/resume", raised)) == (409, "run-ended")
    assert told(await post(http, "/v1/runs/run_none/resume", raised)) == (404, "not-found")


async def test_a_limit_that_would_stop_the_run_again_is_named(
    http: httpx.AsyncClient, rows: Rows
) -> None:
    run = await working(rows, **STOPPED | {"reason": "limit_cost", "cost_usd": "0.5"})
    path = f"/v1/runs/{run}/resume"

    turns = await post(http, path)
    cost = await post(http, path, {"limits": {"turns": 3, "cost_usd": "0.5"}})

    assert [told(turns), told(cost)] == [(409, "not-resumable")] * 2
    assert "'turns'" in turns.json()["detail"]
    assert "'cost_usd'" in cost.json()["detail"]
    assert (await get(http, f"/v1/runs/{run}"))["status"] == "failed"
    assert await rows.execute("select from dbos.workflow_status") == []


async def forkable(rows: Rows) -> str:
    """A run of two turns, the first with a call that has ended, the second with one that has
    not."""
    run = await working(rows, status="running", turns=2, limits={"turns": 9})
    said = {"content": [{"type": "text", "text": "Let me see."}], "finished_at": "2020-01-01"}
    for number in (1, 2):
        await rows.turn(run, number, stop_reason="tool_use", **said)
    await rows.call(run, 1, state="succeeded", replay="idempotent", result={"id": 7}, **DONE)
    await rows.call(run, 2, state="started", arguments={}, replay="idempotent")
    return run


async def test_a_fork_shares_the_first_turns(http: httpx.AsyncClient, rows: Rows) -> None:
    source = await forkable(rows)
    blocks = [{"type": "text", "text": "Try again."}, {"type": "document", "text": 1}]
    trace = "4bf92f3577b34da6a3ce929d0e0e4737"

    response = await post(
        http,
        f"/v1/runs/{source}/fork",
        {"turn": 1, "input": blocks},
        traceparent=f"00-{trace}-00f067aa0ba902b7-01",
    )

    assert response.status_code == 202, response.text
    fork = response.json()
    answers.Run.model_validate(fork)
    assert response.headers["location"] == f"/v1/runs/{fork['id']}"
    assert fork == await get(http, f"/v1/runs/{fork['id']}")
    assert (fork["forked_from"], fork["trace_id"], fork["status"]) == (source, trace, "queued")
    assert fork["session"] != f"ses_{source}"
    assert (fork["turns"], fork["limits_left"], fork["effects"]) == (1, {"turns": 8}, [])
    parts = f"/v1/runs/{fork['id']}"
    assert [turn["number"] for turn in (await get(http, f"{parts}/turns"))["data"]] == [1]
    (call,) = (await get(http, f"{parts}/calls"))["data"]
    assert (call["result"], call["idempotency_key"]) == ({"id": 7}, f"{source}/1/0")
    (message,) = (await get(http, f"{parts}/messages"))["data"]
    assert (message["text"], message["state"]) == ("Try again.\n", "queued")
    assert (await get(http, f"/v1/runs/{source}"))["forked_from"] is None


async def test_the_key_of_a_forks_copy_is_that_of_the_run_that_made_it(
    http: httpx.AsyncClient, rows: Rows
) -> None:
    source = await forkable(rows)
    first = (await post(http, f"/v1/runs/{source}/fork", {"turn": 1})).json()["id"]

    second = (await post(http, f"/v1/runs/{first}/fork", {"turn": 1})).json()["id"]

    (call,) = (await get(http, f"/v1/runs/{second}/calls"))["data"]
    assert call["idempotency_key"] == f"{source}/1/0"


async def test_where_no_fork_can_be_is_told(http: httpx.AsyncClient, rows: Rows) -> None:
    path = f"/v1/runs/{await forkable(rows)}/fork"

    unfinished = await post(http, path, {"turn": 2}, idempotency_key="k")
    beyond = await post(http, path, {"turn": 3}, idempotency_key="k")
    unknown = await post(http, "/v1/runs/run_none/fork", {"turn": 1}, idempotency_key="k")

    for response in (unfinished, beyond):
        assert told(response) == (422, "invalid-request")
        assert response.json()["errors"][0]["field"] == "turn"
    assert told(unknown) == (404, "not-found")
    counted = [await rows.count(table) for table in ("runs", "sessions", "idempotency")]
    assert counted == [1, 1, 0]


async def test_a_key_forks_once(http: httpx.AsyncClient, rows: Rows) -> None:
    source, other = await forkable(rows), await forkable(rows)
    path, body = f"/v1/runs/{source}/fork", {"turn": 1, "input": "Try again."}

    found = await asyncio.gather(*(post(http, path, body, idempotency_key="k") for _ in range(4)))
    changed = await post(http, path, {"turn": 1}, idempotency_key="k")
    elsewhere = await post(http, f"/v1/runs/{other}/fork", body, idempotency_key="k")
    submitted = await post(http, "/v1/runs", {"agent": "desk", "input": "x"}, idempotency_key="k")

    assert sorted(response.status_code for response in found) == [200, 200, 200, 202]
    assert len({response.json()["id"] for response in found}) == 1
    replays = [response.headers.get("idempotent-replayed") for response in found]
    assert replays.count("true") == 3
    reused = (422, "idempotency-key-reused")
    assert [told(response) for response in (changed, elsewhere, submitted)] == [reused] * 3
    assert await rows.count("runs") == 3
