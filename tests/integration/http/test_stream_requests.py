import httpx
import pytest

from app.domain.canonical import printed
from tests.integration.http.rows import Rows
from tests.integration.http.serving import Served
from tests.support.polling import eventually
from tests.support.streams import open_stream

STREAM = {"Accept": "text/event-stream"}
QUEUED = ("run.queued", "run.started")


@pytest.fixture
def http(served: Served) -> httpx.AsyncClient:
    return served.http


async def test_the_log_of_an_ended_run_comes_whole_and_ends(
    http: httpx.AsyncClient, rows: Rows
) -> None:
    run = await rows.ended(*QUEUED)

    async with open_stream(http, run) as stream:
        frames = await stream.rest()

    stored = (await http.get(f"/v1/runs/{run}/events")).json()["data"]
    assert [(f.id, f.event, f.data) for f in frames] == [(e["seq"], e["type"], e) for e in stored]
    assert stream.response.headers["content-type"] == "text/event-stream"
    assert stream.response.headers["cache-control"] == "no-store"
    assert stream.response.headers["x-accel-buffering"] == "no"


async def test_frames_are_written_as_the_contract_has_them(
    http: httpx.AsyncClient, rows: Rows
) -> None:
    run = await rows.ended()

    raw = (await http.get(f"/v1/runs/{run}/events", headers=STREAM)).text

    data = printed((await http.get(f"/v1/runs/{run}/events")).json()["data"][0])
    assert raw == f"id: 1\nevent: run.succeeded\ndata: {data}\n\n"


async def test_a_stream_begins_after_the_last_event_seen(
    http: httpx.AsyncClient, rows: Rows
) -> None:
    run = await rows.ended(*QUEUED)
    path = f"/v1/runs/{run}/events"

    by_query = await http.get(f"{path}?after=1", headers=STREAM)
    by_header = await http.get(path, headers=STREAM | {"Last-Event-ID": "1"})
    by_both = await http.get(f"{path}?after=2", headers=STREAM | {"Last-Event-ID": "1"})

    assert by_query.text.startswith("id: 2\n")
    assert by_query.text == by_header.text == by_both.text


async def test_a_stream_from_the_last_event_of_an_ended_run_is_empty(
    http: httpx.AsyncClient, rows: Rows
) -> None:
    run = await rows.ended(*QUEUED)

    async with open_stream(http, run, after=3) as stream:
        assert await stream.rest() == []


@pytest.mark.parametrize(
    ("query", "headers", "field"),
    [
        ("?after=4", {}, "after"),
        ("?after=x", {}, "after"),
        ("?after=-1", {}, "after"),
        ("", {"Last-Event-ID": "4"}, "Last-Event-ID"),
        ("", {"Last-Event-ID": "x"}, "Last-Event-ID"),
        ("", {"Last-Event-ID": "-1"}, "Last-Event-ID"),
        ("", {"Last-Event-ID": "9" * 19}, "Last-Event-ID"),
        ("?after=1", {"Last-Event-ID": "4"}, "Last-Event-ID"),
    ],
)
async def test_a_place_that_is_none_is_refused_before_the_stream(
    http: httpx.AsyncClient, rows: Rows, query: str, headers: dict[str, str], field: str
) -> None:
    run = await rows.ended(*QUEUED)

    response = await http.get(f"/v1/runs/{run}/events{query}", headers=STREAM | headers)

    assert (response.status_code, response.json()["errors"][0]["field"]) == (422, field)
    assert response.headers["content-type"] == "application/problem+json"


async def test_there_is_no_stream_of_an_unknown_run(http: httpx.AsyncClient) -> None:
    response = await http.get("/v1/runs/run_none/events", headers=STREAM)

    assert response.status_code == 404


@pytest.mark.parametrize(
    ("accept", "is_stream"),
    [
        ("text/event-stream", True),
        ("Text/Event-Stream;charset=utf-8", True),
        ("text/event-stream, application/json", True),
        ("text/event-stream, */*", True),
        ("text/*", True),
        ("application/json;q=0.5, text/event-stream;q=0.9", True),
        ("*/*", False),
        ("", False),
        ("application/json", False),
        ("application/json, text/event-stream", False),
        ("text/event-stream;q=0.5, application/json", False),
        ("text/event-stream;q=0.5, */*", False),
        ("text/event-stream;q=0", False),
        ("text/event-stream;q=much", False),
        ("text/html", False),
    ],
)
async def test_accept_decides_what_the_log_comes_as(
    http: httpx.AsyncClient, rows: Rows, accept: str, is_stream: bool
) -> None:
    run = await rows.ended()

    response = await http.get(f"/v1/runs/{run}/events", headers={"Accept": accept})

    expected = "text/event-stream" if is_stream else "application/json"
    assert (response.status_code, response.headers["content-type"]) == (200, expected)
    assert response.headers["vary"] == "Accept"


async def test_a_page_does_not_mind_where_a_stream_left_off(
    http: httpx.AsyncClient, rows: Rows
) -> None:
    run = await rows.ended()

    response = await http.get(f"/v1/runs/{run}/events", headers={"Last-Event-ID": "x"})

    assert len(response.json()["data"]) == 1


async def test_what_is_no_stream_does_not_become_one(http: httpx.AsyncClient, rows: Rows) -> None:
    run = await rows.ended()

    for path in (f"/v1/runs/{run}", f"/v1/runs/{run}/turns", "/v1/runs", "/v1/workers"):
        response = await http.get(path, headers=STREAM)
        assert response.headers["content-type"] == "application/json", path


async def test_head_tells_of_a_stream_and_leaves_none_behind(served: Served, rows: Rows) -> None:
    run = await rows.run(status="running")

    response = await served.http.head(f"/v1/runs/{run}/events", headers=STREAM)

    async def over() -> bool:
        return not served.server.server_state.tasks

    await eventually(over, "the request is over")
    assert (response.status_code, response.content) == (200, b"")
    assert response.headers["content-type"] == "text/event-stream"
