"""Every way an answer can fail: classified, asked for once, and never telling the key."""

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from app.llm.anthropic import AnthropicModel
from app.llm.client import ModelAnswer, ModelFailure
from app.llm.scripted import RequestRecord, Scripted, follow
from tests.integration.llm.conftest import KEY, Connect, Serve
from tests.integration.llm.requests import ask, script

START = {"type": "message_start", "message": {"model": "m", "content": [], "usage": {}}}


async def _fail(connect: Connect, step: dict[str, Any], read_seconds: float = 10.0) -> ModelFailure:
    server = Scripted()
    model = await connect(server, read_seconds)
    failure = await model.answer(ask(script(step)))
    assert isinstance(failure, ModelFailure)
    assert len(server.requests) == 1
    assert KEY not in repr(failure)
    return failure


@pytest.mark.parametrize(
    ("status", "verdict", "type_", "maybe_paid"),
    [
        (400, "fatal", "invalid_request_error", False),
        (401, "fatal", "authentication_error", False),
        (403, "fatal", "permission_error", False),
        (404, "fatal", "not_found_error", False),
        (408, "retry", "invalid_request_error", True),
        (409, "retry", "conflict_error", False),
        (413, "fatal", "request_too_large", False),
        (429, "retry", "rate_limit_error", False),
        (500, "retry", "api_error", False),
        (503, "retry", "api_error", False),
        (504, "retry", "timeout_error", True),
        (529, "retry", "overloaded_error", False),
    ],
)
async def test_a_status_is_judged_and_asked_for_once(
    connect: Connect, status: int, verdict: str, type_: str, maybe_paid: bool
) -> None:
    failure = await _fail(connect, {"status": status, "message": f"no: {KEY}"})

    assert (failure.status, failure.verdict, failure.type) == (status, verdict, type_)
    assert failure.maybe_paid is maybe_paid
    assert failure.detail.startswith("no: [key] (request req_")


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after-ms": "1500"}, 1.5),
        ({"retry-after": "Fri, 31 Dec 2100 23:59:59 GMT"}, None),
        ({}, None),
    ],
)
async def test_the_wait_that_was_asked_for_is_told(
    connect: Connect, headers: dict[str, str], seconds: float | None
) -> None:
    failure = await _fail(connect, {"status": 429, "headers": headers})

    if seconds is None and headers:
        assert failure.retry_after is not None
        assert failure.retry_after > 1_000_000
    else:
        assert failure.retry_after == seconds


async def test_an_error_page_that_is_no_json_is_judged_by_its_status(connect: Connect) -> None:
    failure = await _fail(connect, {"status": 502, "body": "<html>\0 bad gateway"})

    assert (failure.verdict, failure.type) == ("retry", "http_502")
    assert failure.detail == "<html> bad gateway"


@pytest.mark.parametrize("place", ["after_start", "mid_text", "before_stop"])
async def test_a_cut_stream_is_tried_again(connect: Connect, place: str) -> None:
    failure = await _fail(connect, {"cut": place})

    assert (failure.verdict, failure.type, failure.maybe_paid) == ("retry", "cut_stream", True)


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        ("overloaded_error", "retry"),
        ("api_error", "retry"),
        ("rate_limit_error", "retry"),
        ("invalid_request_error", "fatal"),
    ],
)
async def test_an_error_in_mid_stream_is_judged_by_its_type(
    connect: Connect, error: str, verdict: str
) -> None:
    failure = await _fail(connect, {"error": error})

    assert (failure.verdict, failure.type, failure.maybe_paid) == (verdict, error, True)
    assert failure.status == 200


@pytest.mark.parametrize("place", [True, "after_start", "mid_text"])
async def test_silence_is_a_time_out(connect: Connect, place: object) -> None:
    failure = await _fail(connect, {"stall": place}, read_seconds=0.2)

    assert (failure.verdict, failure.type, failure.maybe_paid) == ("retry", "timeout", True)


@pytest.mark.parametrize(
    "events",
    [
        [START, {"type": "content_block_delta", "index": 3, "delta": {"type": "text_delta"}}],
        [{"type": "message_start"}],
        [{"type": "message_stop"}],
    ],
)
async def test_a_stream_that_makes_no_sense_is_tried_again(
    connect: Connect, events: list[dict[str, Any]]
) -> None:
    failure = await _fail(connect, {"events": events})

    assert (failure.verdict, failure.type) == ("retry", "malformed_answer")


@pytest.mark.parametrize(
    ("content_type", "body", "type_"),
    [
        ("application/json", b"{", "malformed_answer"),
        ("application/json", b'{"type": "message"}', "malformed_answer"),
        ("application/json", b'{"type": "error", "error": {"type": "api_error"}}', "api_error"),
        ("text/event-stream", b"", "cut_stream"),
        ("text/event-stream", b"data: {\n\n", "malformed_answer"),
        ("text/event-stream", b"data: \xff\n\n", "malformed_answer"),
        ("text/html", b"<html>sign in</html>", "cut_stream"),
    ],
)
async def test_a_200_that_is_no_answer_is_tried_again(
    connect: Connect, content_type: str, body: bytes, type_: str
) -> None:
    async def odd(scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-type", content_type.encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    model = await connect(odd)

    failure = await model.answer(ask("go"))

    assert isinstance(failure, ModelFailure)
    assert (failure.verdict, failure.type, failure.maybe_paid) == ("retry", type_, True)


async def test_nobody_listening_was_not_paid() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    listener.close()
    model = AnthropicModel(api_key=KEY, base_url=f"http://127.0.0.1:{port}")

    failure = await model.answer(ask("go"))
    await model.close()

    assert isinstance(failure, ModelFailure)
    assert (failure.verdict, failure.type) == ("retry", "connection_error")
    assert failure.maybe_paid is False


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 503 Busy\r\ncontent-length: 9\r\n\r\n{"])
async def test_a_connection_that_breaks_before_or_in_an_error_answer(said: bytes) -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(said)
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    model = AnthropicModel(api_key=KEY, base_url=f"http://127.0.0.1:{port}")

    failure = await model.answer(ask("go"))
    await model.close()
    server.close()

    assert isinstance(failure, ModelFailure)
    assert (failure.verdict, failure.status, failure.maybe_paid) == ("retry", None, True)


@pytest.mark.parametrize("key", [f"{KEY}\n", f"{KEY}\ud800"])
async def test_a_key_that_cannot_be_sent_is_fatal_and_not_told(serve: Serve, key: str) -> None:
    model = AnthropicModel(api_key=key, base_url=await serve(Scripted()))

    failure = await model.answer(ask("go"))
    await model.close()

    assert isinstance(failure, ModelFailure)
    assert (failure.verdict, failure.maybe_paid) == ("fatal", False)
    assert KEY not in repr(failure)


async def test_no_key_at_all_is_fatal(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    model = AnthropicModel(base_url=await serve(Scripted()))

    failure = await model.answer(ask("go"))
    await model.close()

    assert isinstance(failure, ModelFailure)
    assert failure.verdict == "fatal"


async def test_key_and_url_come_from_the_environment(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Scripted(follow({"text": "ok"}))
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", await serve(server))
    model = AnthropicModel()

    answer = await model.answer(ask("go"))
    await model.close()

    assert isinstance(answer, ModelAnswer)
    assert KEY in server.requests[0].headers.get("authorization", "")


async def test_a_request_that_is_no_json_is_fatal(connect: Connect) -> None:
    model = await connect(Scripted())

    failure = await model.answer(ask("go", system=[{"type": "text", "text": float("nan")}]))

    assert isinstance(failure, ModelFailure)
    assert (failure.verdict, failure.type) == ("fatal", "request_error")


@pytest.mark.parametrize("place", [True, "mid_text"])
async def test_a_cancelled_call_hangs_up_at_once(connect: Connect, place: object) -> None:
    arrived, left = asyncio.Event(), asyncio.Event()

    async def arrive(_: RequestRecord) -> None:
        arrived.set()

    server = Scripted(on_request=arrive)

    async def watched(scope: Scope, receive: Receive, send: Send) -> None:
        await server(scope, receive, send)  # a stall ends when the client has left
        left.set()

    model = await connect(watched)
    task = asyncio.create_task(model.answer(ask(script({"stall": place}))))
    await arrived.wait()
    assert not left.is_set()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(left.wait(), 2)


async def test_many_failures_leave_no_connection_behind(connect: Connect) -> None:
    open_now: set[int] = set()
    server = Scripted()

    async def watched(scope: Scope, receive: Receive, send: Send) -> None:
        open_now.add(scope["client"][1])
        await server(scope, receive, send)
        open_now.discard(scope["client"][1])

    model = await connect(watched)
    request = ask(script({"cut": "mid_text"}))

    for _ in range(10):
        failures = await asyncio.gather(*(model.answer(request) for _ in range(20)))
        assert {getattr(failure, "type", None) for failure in failures} == {"cut_stream"}

    assert open_now == set()
