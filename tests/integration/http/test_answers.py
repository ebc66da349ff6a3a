"""Answers to questions that a client or a person was asked, in place of a tool."""

from typing import Any

import httpx
import pytest

from tests.integration.http.questions import ask
from tests.integration.http.rows import Rows
from tests.integration.http.test_runs import get

LARGEST = 256 * 1024


async def state_of(http: httpx.AsyncClient, run: str) -> tuple[str, Any]:
    """Of its only call: the state and the result."""
    (call,) = (await get(http, f"/v1/runs/{run}/calls"))["data"]
    return call["state"], call["result"]


@pytest.mark.parametrize("result", [{"number": 7}, {"number": 7.0, "lines": ["a"], "more": None}])
async def test_a_result_that_fits_is_taken(
    http: httpx.AsyncClient, rows: Rows, result: object
) -> None:
    asked = await ask(rows, "print_receipt", "external")

    response = await http.post(asked.path, json={"result": result})

    assert (response.status_code, response.json()["state"]) == (200, "resolved")
    assert await state_of(http, asked.run) == ("succeeded", result)


@pytest.mark.parametrize(
    ("result", "problem"),
    [
        (None, "None is not of type 'object'"),
        ("7", "'7' is not of type 'object'"),
        ({}, "'number' is a required property"),
        ({"number": "7"}, "number: '7' is not of type 'integer'"),
        ({"number": True}, "number: True is not of type 'integer'"),
        ({"number": 1, "lines": ["a", {"b": 2}]}, "lines.1: {'b': 2} is not of type 'string'"),
    ],
)
async def test_a_result_that_does_not_fit_is_refused_and_changes_nothing(
    http: httpx.AsyncClient, rows: Rows, result: object, problem: str
) -> None:
    asked = await ask(rows, "print_receipt", "external")

    response = await http.post(asked.path, json={"result": result})

    assert response.status_code == 422, response.text
    assert response.json()["errors"] == [{"field": "result", "message": problem}]
    assert problem in response.json()["detail"]
    assert (await get(http, f"/v1/waits/{asked.wait}"))["state"] == "open"
    assert await state_of(http, asked.run) == ("waiting", None)
    assert await rows.count("events") == 0
    assert (await http.post(asked.path, json={"result": {"number": 1}})).status_code == 200


async def test_all_that_does_not_fit_is_told_shortly(http: httpx.AsyncClient, rows: Rows) -> None:
    asked = await ask(rows, "print_receipt", "external")
    lines = [["x" * 2000]] * 100

    response = await http.post(asked.path, json={"result": {"number": 1, "lines": lines}})

    assert len(response.json()["errors"]) == 20
    assert len(response.content) < 12_000


@pytest.mark.parametrize(
    ("tool", "said"),
    [
        ("print_receipt", {"result": "the printer is out of paper", "is_error": True}),
        ("look_up", {"result": "anything"}),
        ("gone_since_a_deploy", {"result": [1]}),
    ],
)
async def test_what_no_schema_speaks_of_is_taken(
    http: httpx.AsyncClient, rows: Rows, tool: str, said: dict[str, Any]
) -> None:
    asked = await ask(rows, tool, "external")

    response = await http.post(asked.path, json=said)

    assert (response.status_code, response.json()["state"]) == (200, "resolved")


async def test_a_resolved_wait_is_not_checked_again(http: httpx.AsyncClient, rows: Rows) -> None:
    asked = await ask(rows, "print_receipt", "external")
    await http.post(asked.path, json={"result": {"number": 1}, "on_behalf_of": "ann"})

    other = await http.post(asked.path, json={"result": "no receipt"})

    assert (other.status_code, other.json()["type"]) == (409, "/problems/already-resolved")
    assert other.json()["detail"].startswith("ann has resolved")


async def test_a_result_is_the_same_whether_or_not_it_is_said_to_be_no_error(
    http: httpx.AsyncClient, rows: Rows
) -> None:
    asked = await ask(rows, "look_up", "external")
    first = await http.post(asked.path, json={"result": 1})

    again = await http.post(asked.path, json={"result": 1, "is_error": False})
    contrary = await http.post(asked.path, json={"result": 1, "is_error": True})

    assert (again.status_code, again.json()) == (200, first.json())
    assert contrary.status_code == 409


@pytest.mark.parametrize(
    ("kind", "tool", "name", "most"),
    [
        ("input", "ask_user", "text", LARGEST),
        ("external", "look_up", "result", LARGEST - 2),  # and its quotes
    ],
)
async def test_an_answer_may_be_as_large_as_a_result(
    http: httpx.AsyncClient, rows: Rows, kind: str, tool: str, name: str, most: int
) -> None:
    asked = await ask(rows, tool, kind)
    largest = "é" * (most // 2)

    larger = await http.post(asked.path, json={name: largest + "e"})
    large = await http.post(asked.path, json={name: largest})

    assert (larger.status_code, larger.json()["errors"][0]["field"]) == (422, name)
    assert large.status_code == 200
    assert await state_of(http, asked.run) == ("succeeded", largest)


@pytest.mark.parametrize("kind", ["timer", "child"])
async def test_what_resolves_itself_is_refused(
    http: httpx.AsyncClient, rows: Rows, kind: str
) -> None:
    asked = await ask(rows, "delegate", kind)

    for body in ({"result": 1}, {"text": "go on"}, {"decision": "allow"}, {}):
        response = await http.post(asked.path, json=body)
        assert response.status_code == 422, response.text
        assert kind in response.json()["detail"]
    assert (await get(http, f"/v1/waits/{asked.wait}"))["state"] == "open"
