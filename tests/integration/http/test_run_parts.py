from typing import Any

import httpx
import pytest

from app.http.schemas import answers
from tests.integration.http.rows import Rows
from tests.integration.http.test_runs import get

ATTEMPT = {
    "attempt": 1,
    "worker": "w1",
    "started_at": "2030-01-01T00:00:00.000000Z",
    "ended_at": None,
    "outcome": None,
}


async def pages(http: httpx.AsyncClient, path: str) -> list[list[dict[str, Any]]]:
    """All pages, two items each."""
    found = [await get(http, f"{path}?limit=2")]
    while found[-1]["next"] is not None:
        found.append(await get(http, f"{path}?limit=2&after={found[-1]['next']}"))
    return [page["data"] for page in found]


async def test_turns_come_finished_and_current(http: httpx.AsyncClient, rows: Rows) -> None:
    run = await rows.run()
    await rows.turn(
        run,
        1,
        content=[{"type": "thinking", "signature": "\ud800"}],
        stop_reason="end_turn",
        usage={"input_tokens": 1},
        history=[ATTEMPT | {"fence": 3}],
        finished_at="2030-01-01",
    )
    await rows.turn(run, 2)
    await rows.turn(run, 3)

    first, second = await pages(http, f"/v1/runs/{run}/turns")

    assert [turn["number"] for turn in first + second] == [1, 2, 3]
    assert first[0]["content"] == [{"type": "thinking", "signature": "\ud800"}]
    assert first[0]["history"] == [ATTEMPT]
    assert first[1]["content"] is None
    assert "parameters" not in first[0]
    for turn in first + second:
        answers.Turn.model_validate(turn)


STORED_CALL = {
    "state": "succeeded",
    "arguments": {"ref": "A"},
    "arguments_hash": "h",
    "replay": "idempotent",
    "approval": "never",
    "attempts": 2,
    "history": [ATTEMPT | {"fence": 9}],
    "result": {"ok": True},
    "is_error": False,
    "worker": "w1",
    "fence": 9,
    "created_at": "2030-01-01T00:00:00Z",
    "started_at": "2030-01-01T00:00:01Z",
    "finished_at": "2030-01-01T00:00:02Z",
}
SHOWN_CALL = {
    "id": "call_1_3_1",
    "run": "run_1",
    "turn": 3,
    "index": 1,
    "provider_id": "toolu_1",
    "tool": "pay",
    "arguments": {"ref": "A"},
    "arguments_hash": "h",
    "replay": "idempotent",
    "approval": "never",
    "state": "succeeded",
    "attempts": 2,
    "idempotency_key": "run_1/3/1",
    "compensates": None,
    "result": {"ok": True},
    "is_error": False,
    "worker": "w1",
    "history": [ATTEMPT],
    "created_at": "2030-01-01T00:00:00.000000Z",
    "started_at": "2030-01-01T00:00:01.000000Z",
    "finished_at": "2030-01-01T00:00:02.000000Z",
}


async def test_a_call_shows_every_field_of_the_contract(
    http: httpx.AsyncClient, rows: Rows
) -> None:
    await rows.run("run_1")
    await rows.call("run_1", 3, 1, **STORED_CALL)

    (shown,) = (await get(http, "/v1/runs/run_1/calls"))["data"]

    answers.Call.model_validate(shown)
    assert shown == SHOWN_CALL


async def test_a_call_shows_what_was_proposed_until_it_is_decided(
    http: httpx.AsyncClient, rows: Rows
) -> None:
    run = await rows.run()
    await rows.call(run, 1, 0, proposed={"ref": "a"})
    await rows.call(run, 1, 1, proposed={"ref": "a"}, arguments={})

    first, second = (await get(http, f"/v1/runs/{run}/calls"))["data"]

    assert (first["arguments"], second["arguments"]) == ({"ref": "a"}, {})


async def test_calls_come_in_the_order_of_turn_and_index(
    http: httpx.AsyncClient, rows: Rows
) -> None:
    run = await rows.run()
    places = [(1, 0), (1, 1), (2, 0), (10, 0), (10, 1)]
    for turn, index in reversed(places):
        await rows.call(run, turn, index)

    found = await pages(http, f"/v1/runs/{run}/calls")

    assert [(call["turn"], call["index"]) for page in found for call in page] == places
    assert [len(page) for page in found] == [2, 2, 1]


async def test_events_are_paged_by_their_numbers(http: httpx.AsyncClient, rows: Rows) -> None:
    run = await rows.run()
    types = ["run.queued", "run.started", "run.waiting"]
    await rows.events(run, *types)

    page = await get(http, f"/v1/runs/{run}/events?limit=2")
    rest = await get(http, f"/v1/runs/{run}/events?after=2")
    none = await get(http, f"/v1/runs/{run}/events?after=3")

    assert [event["type"] for event in page["data"] + rest["data"]] == types
    assert [event["seq"] for event in page["data"] + rest["data"]] == [1, 2, 3]
    assert (page["next"], rest["next"], none) == (2, None, {"data": [], "next": None})
    answers.Events.model_validate(page)


@pytest.mark.parametrize("after", [4, 2**63 - 1])
async def test_a_number_beyond_the_log_is_refused(
    http: httpx.AsyncClient, rows: Rows, after: int
) -> None:
    run = await rows.run()
    await rows.events(run, "run.queued", "run.started", "run.waiting")

    response = await http.get(f"/v1/runs/{run}/events?after={after}")

    assert response.status_code == 422
    assert response.json()["errors"][0]["field"] == "after"


async def test_messages_come_in_the_order_they_were_sent(
    http: httpx.AsyncClient, rows: Rows
) -> None:
    run = await rows.run()
    await rows.message(run, "first", state="delivered", turn=2)
    await rows.message(run, "second", state="queued", turn=3)
    await rows.message(run, "third", state="undelivered")

    (first, second), (third,) = await pages(http, f"/v1/runs/{run}/messages")

    found = [(m["text"], m["state"], m["turn"]) for m in (first, second, third)]
    assert found == [
        ("first", "delivered", 2),
        ("second", "queued", None),
        ("third", "undelivered", None),
    ]
    answers.Message.model_validate(first)


async def test_a_cursor_of_another_run_is_refused(http: httpx.AsyncClient, rows: Rows) -> None:
    run, other = await rows.run(), await rows.run()
    for number in (1, 2):
        await rows.turn(run, number)
    cursor = (await get(http, f"/v1/runs/{run}/turns?limit=1"))["next"]

    response = await http.get(f"/v1/runs/{other}/turns?after={cursor}")

    assert response.status_code == 422
