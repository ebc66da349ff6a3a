"""Whatever answers, and whatever is asked: a caller sees only errors of the client."""

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from app.client import AsyncPerdure, ClientError, Perdure, Problem, Uncertain, Unreachable
from app.client.errors import Unusable
from tests.unit.client.service import RUN

Asking = Callable[[Perdure], Any]

DEEP = b"[" * 100_000
ODD = [b"[]", b"null", b'"x"', b"5", b'{"id":"run_1"}', b"<html>", b"\xff", b"", DEEP]
STREAM = {"content-type": "text/event-stream"}
READING: dict[str, Asking] = {
    "get": lambda client: client.runs.get("run_1"),
    "wait": lambda client: client.runs.wait("run_1"),
    "wait_": lambda client: client.waits.get("wait_1"),
    "list": lambda client: list(client.runs.list()),
    "transcript": lambda client: client.sessions.transcript("ses_1"),
    "look": lambda client: list(client.runs.events("run_1", after=1)),
}
CHANGING: dict[str, Asking] = {
    "submit": lambda client: client.runs.submit("desk", "Hi"),
    "send": lambda client: client.runs.send("run_1", "Hi"),
    "cancel": lambda client: client.runs.cancel("run_1"),
    "withdraw": lambda client: client.runs.withdraw("run_1", "msg_1"),
    "answer": lambda client: client.waits.answer("wait_1", "Yes"),
    "redeliver": lambda client: client.deliveries.redeliver("whd_1"),
}


def answering(body: bytes, status: int = 200, **headers: str) -> httpx.MockTransport:
    named = {name.replace("_", "-"): value for name, value in headers.items()}

    def answer(request: httpx.Request) -> httpx.Response:
        if request.headers["accept"] == "text/event-stream":
            return httpx.Response(200, headers=STREAM)
        return httpx.Response(status, headers=named, content=body)

    return httpx.MockTransport(answer)


@pytest.mark.parametrize("body", ODD, ids=range(len(ODD)))
@pytest.mark.parametrize("name", READING)
def test_an_answer_of_another_form_is_told_as_one(name: str, body: bytes) -> None:
    with (
        Perdure(transport=answering(body)) as client,
        pytest.raises(Problem, match="address of a Perdure service"),
    ):
        READING[name](client)


@pytest.mark.parametrize("body", ODD, ids=range(len(ODD)))
@pytest.mark.parametrize("name", CHANGING)
def test_after_an_answer_of_another_form_it_may_have_been_done(name: str, body: bytes) -> None:
    with (
        Perdure(transport=answering(body)) as client,
        pytest.raises(Uncertain, match="may have been done") as raised,
    ):
        CHANGING[name](client)
    assert isinstance(raised.value.__cause__, Problem)


@pytest.mark.parametrize("status", [404, 409, 422])
@pytest.mark.parametrize("body", ODD, ids=range(len(ODD)))
def test_a_refusal_of_another_form_is_still_one(body: bytes, status: int) -> None:
    with Perdure(transport=answering(body, status)) as client, pytest.raises(Problem) as raised:
        client.runs.send("run_1", "Hi")
    assert raised.value.status == status


@pytest.mark.parametrize(
    "page", [{"data": [RUN]}, {"data": RUN, "next": None}, {"data": [], "next": []}, {"next": None}]
)
async def test_a_page_of_another_form_is_told_as_one(page: object) -> None:
    transport = answering(json.dumps(page).encode())
    with Perdure(transport=transport) as client, pytest.raises(Problem, match="GET /v1/runs"):
        list(client.runs.list())
    async with AsyncPerdure(transport=transport) as client_:
        with pytest.raises(Problem, match="GET /v1/runs"):
            [run async for run in client_.runs.list()]


async def test_a_body_that_cannot_be_unpacked_is_no_answer() -> None:
    packed = answering(b"no gzip", content_encoding="gzip")
    with Perdure(patience=0, transport=packed) as client:
        with pytest.raises(Unreachable):
            client.runs.get("run_1")
        with pytest.raises(Uncertain):
            client.runs.send("run_1", "Hi")
    async with AsyncPerdure(patience=0, transport=packed) as client_:
        with pytest.raises(Uncertain):
            await client_.runs.send("run_1", "Hi")


def test_an_output_of_another_form_has_no_text() -> None:
    found = RUN | {"output": {"words": "Hi"}}
    with Perdure(transport=answering(json.dumps(found).encode())) as client:
        assert client.runs.get("run_1").text is None


UNUSABLE: dict[str, Asking] = {
    "key": lambda client: client.runs.submit("desk", "Hi", idempotency_key="é"),
    "key of two lines": lambda client: client.runs.submit(
        "desk", "Hi", idempotency_key="a\r\nx: y"
    ),
    "no key": lambda client: client.runs.submit("desk", "Hi", idempotency_key=""),
    "key of a fork": lambda client: client.runs.fork("run_1", 1, idempotency_key="a b"),
    "id": lambda client: client.runs.get("\ud800"),
    "id of a list": lambda client: list(client.runs.turns("\ud800")),
    "id of a stream": lambda client: list(client.runs.events("\ud800")),
    "long id": lambda client: client.runs.get("a" * 100_000),
    "long id of a stream": lambda client: list(client.runs.events("a" * 100_000)),
    "filter": lambda client: list(client.runs.list(agent="\ud800")),
    "input": lambda client: client.runs.submit("desk", [{"text": object()}]),
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_what_no_request_can_be_made_of_is_refused_unsent(name: str) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        raise AssertionError("nothing is sent")

    with Perdure(transport=httpx.MockTransport(answer)) as client, pytest.raises(Unusable):
        UNUSABLE[name](client)


@pytest.mark.parametrize(
    "url", ["http://[", "http://a:b", "http://a:99999", "http://a\n", "http://"]
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ClientError, match="PERDURE_URL"):
        Perdure(url)


def test_waiting_without_an_end_may_be_asked_for() -> None:
    with Perdure(transport=answering(json.dumps(RUN).encode())) as client:
        assert client.runs.wait("run_1", timeout=float("inf")).status == "succeeded"
