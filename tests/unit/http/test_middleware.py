from collections.abc import Iterable, Iterator

import pytest
from starlette.types import Message, Receive, Scope, Send

from app.http.console.problems import answer
from app.http.middleware import LARGEST_BODY, Envelope
from tests.unit.http.conftest import make_app

CHUNK = 64 * 1024


class Exchange:
    """One request, spoken in ASGI, with a body that is only made as it is asked for."""

    def __init__(self, chunks: Iterable[bytes], headers: dict[str, str]) -> None:
        self._chunks: Iterator[bytes] = iter(chunks)
        self.taken = 0
        self.sent: list[Message] = []
        self.scope: Scope = {
            "type": "http",
            "http_version": "1.1",
            "method": "POST",
            "path": "/v1/runs",
            "raw_path": b"/v1/runs",
            "query_string": b"",
            "scheme": "http",
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        }

    async def receive(self) -> Message:
        chunk = next(self._chunks, None)
        if chunk is None:
            return {"type": "http.request", "body": b"", "more_body": False}
        self.taken += len(chunk)
        return {"type": "http.request", "body": chunk, "more_body": True}

    async def send(self, message: Message) -> None:
        self.sent.append(message)

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"])


def post(chunks: Iterable[bytes], **headers: str) -> Exchange:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Exchange(chunks, {"host": "localhost", "content-type": "application/json"} | named)


async def test_an_announced_large_body_is_refused_unread() -> None:
    exchange = post([b"x" * CHUNK] * 160, content_length=str(160 * CHUNK))

    await make_app()(exchange.scope, exchange.receive, exchange.send)

    assert (exchange.status, exchange.taken) == (413, 0)


async def test_a_large_body_without_length_is_refused_as_soon_as_it_is_too_long() -> None:
    exchange = post([b"x" * CHUNK] * 160, transfer_encoding="chunked")

    await make_app()(exchange.scope, exchange.receive, exchange.send)

    assert exchange.status == 413
    assert exchange.taken <= LARGEST_BODY + CHUNK


async def test_a_body_of_the_largest_size_is_read() -> None:
    body = b'{"agent":"desk","input":"' + b"x" * (LARGEST_BODY - 27) + b'"}'
    assert len(body) == LARGEST_BODY
    exchange = post([body])

    await make_app()(exchange.scope, exchange.receive, exchange.send)

    assert exchange.status == 503  # as far as the database


@pytest.mark.parametrize("length", ["-1", "x", "1 2", "\u0662"])
async def test_a_length_that_is_no_number_is_refused(length: str) -> None:
    exchange = post([b"{}"], content_length=length)

    await make_app()(exchange.scope, exchange.receive, exchange.send)

    assert exchange.status == 422


async def raise_secret(scope: Scope, receive: Receive, send: Send) -> None:
    raise RuntimeError("select password from users")


@pytest.mark.parametrize("accept", ["*/*", "text/html"])
async def test_an_unforeseen_error_is_logged_once_and_not_told(
    caplog: pytest.LogCaptureFixture, accept: str
) -> None:
    exchange = post([], accept=accept)
    exchange.scope["path"] = "/inbox"

    await Envelope(raise_secret, answer)(exchange.scope, exchange.receive, exchange.send)

    body = exchange.sent[1]["body"].decode()
    assert exchange.status == 500
    assert body.startswith("<!doctype html>" if accept == "text/html" else "{")
    assert "not yours" in body
    request_id = dict(exchange.sent[0]["headers"])[b"x-request-id"].decode()
    assert (request_id in body) == (accept == "text/html")
    assert "password" not in body
    assert "RuntimeError" not in body
    assert "password" in caplog.text
    assert caplog.text.count("a request failed") == 1


async def test_a_client_that_leaves_in_the_midst_of_its_body_is_no_fault_of_ours(
    caplog: pytest.LogCaptureFixture,
) -> None:
    exchange = post([b'{"agent":'])
    rest: list[Message] = [await exchange.receive(), {"type": "http.disconnect"}]

    async def receive() -> Message:
        return rest.pop(0)

    await make_app()(exchange.scope, receive, exchange.send)

    assert (exchange.sent, caplog.records) == ([], [])


async def test_an_error_after_the_answer_has_begun_ends_the_connection() -> None:
    async def break_off(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise RuntimeError("cut")

    exchange = post([])

    with pytest.raises(RuntimeError, match="cut"):
        await Envelope(break_off, answer)(exchange.scope, exchange.receive, exchange.send)
    assert len(exchange.sent) == 1
