import json
from collections.abc import Callable
from typing import Any

import pytest

from app.llm.scripted.checks import check_body, check_headers, read_body
from app.llm.scripted.refusal import Refused

VERSION = "2026-10-21"
TEXT = {"type": "text", "text": "hi"}
MARK: dict[str, Any] = {"cache_control": {"type": "ephemeral"}}
Edit = Callable[[dict[str, Any]], object]


def _use(id_: str = "t1", **more: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id_, "name": "pay", "input": {}, **more}


def _result(id_: str = "t1", **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id_, "content": "ok", **more}


def _body(*turns: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    roles = ("user", "assistant")
    messages = [{"role": roles[i % 2], "content": blocks} for i, blocks in enumerate(turns)]
    return {"model": "m", "max_tokens": 2000, "messages": messages or [], **more}


def _tool(name: str = "pay", **more: Any) -> dict[str, Any]:
    return {"name": name, "input_schema": {"type": "object"}, **more}


GOOD = [
    _body([TEXT]),
    _body([TEXT], system="s", stream=True, metadata={}, tool_choice={"type": "auto"}),
    _body([TEXT], system=[{**TEXT, **MARK}], tools=[_tool(**MARK), _tool("b")]),
    _body([TEXT], thinking={"type": "enabled", "budget_tokens": 1024}),
    _body([TEXT], [_use(), _use("t2")], [_result("t2"), _result(), TEXT]),
    _body([TEXT], [_use(name="invented-tool")], [_result(is_error=True, content=[TEXT])]),
    _body([TEXT], [_use()], [_result()], [_use()], [_result()]),
    _body([TEXT], [TEXT, {"type": "hologram", "x": 1}]),
    _body([TEXT], [{"type": "server_tool_use", "id": "s", "name": "web", "input": {}}]),
]


@pytest.mark.parametrize("body", GOOD)
def test_what_the_api_takes_is_taken(body: dict[str, Any]) -> None:
    check_body(body, VERSION)


BAD = [
    (_body(), "at least one message"),
    (_body([TEXT], surprise=1), "surprise: Extra inputs"),
    (_body([TEXT], temperature=1), "temperature: Extra inputs"),
    (_body([TEXT], max_tokens=0), "max_tokens"),
    (_body([TEXT], max_tokens=True), "max_tokens"),
    (_body([TEXT], model=""), "model"),
    (_body([TEXT], stream="yes"), "stream"),
    (_body([TEXT], thinking={"type": "on"}), "thinking.type"),
    (_body([TEXT], thinking={"type": "enabled", "budget_tokens": 10}), "budget_tokens"),
    (_body([TEXT], thinking={"type": "enabled", "budget_tokens": 2000}), "must be greater"),
    (_body([TEXT], system=[{"type": "text", "text": ""}]), "system.0"),
    (_body([TEXT], system=["s"]), "system.0"),
    (_body([TEXT], tools=[_tool(), _tool()]), "unique"),
    (_body([TEXT], tools=[_tool("no spaces")]), "pattern"),
    (_body([TEXT], tools=[_tool("x" * 129)]), "pattern"),
    (_body([TEXT], tools=[{"name": "pay"}]), "input_schema"),
    (_body([TEXT], tools=[_tool(description=1)]), "description"),
    (_body([TEXT], tools=[_tool(**MARK)] + [_tool(f"t{i}", **MARK) for i in range(4)]), "Found 5"),
    (_body([{**TEXT, "cache_control": {"type": "x"}}]), "ephemeral"),
    (_body([]), "non-empty content"),
    (_body([{"type": "text", "text": ""}]), "non-empty"),
    (_body([{"type": "text", "text": " \n"}]), "non-whitespace"),
    (_body([{"type": "text"}]), "valid string"),
    (_body([{"text": "x"}]), "type: required"),
    (_body([_use()]), "not permitted in user"),
    (_body([TEXT], [_result()]), "not permitted in assistant"),
    (_body([TEXT], [{"type": "document"}]), "not permitted in assistant"),
    (_body([{**TEXT, "citations": [1]}]), "citations"),
    (_body([TEXT], [{"type": "thinking", "thinking": "x"}], [TEXT]), "signature"),
    (_body([TEXT], [{"type": "redacted_thinking"}], [TEXT]), "data"),
    (_body([TEXT], [_use(input="x")], [_result()]), "valid dictionary"),
    (_body([TEXT], [_use("a b")], [_result("a b")]), "pattern"),
    (_body([TEXT], [_use(partial_json="{")], [_result()]), "partial_json"),
    (_body([TEXT], [_use()], [_result(name="pay")]), "name: Extra inputs"),
    (_body([TEXT], [_use()], [_result(is_error="x")]), "is_error"),
    (_body([TEXT], [_use()], [_result(content=[{"type": "text", "text": ""}])]), "non-empty"),
    (_body([TEXT], [_use()]), "without `tool_result`"),
    (_body([TEXT], [_use()], [TEXT]), "without `tool_result`"),
    (_body([TEXT], [_use()], [TEXT, _result()]), "without `tool_result`"),
    (_body([TEXT], [_use(), _use("t2")], [_result()]), "without `tool_result`.*t2"),
    (_body([TEXT], [_use()], [_result(), _result()]), "single result"),
    (_body([TEXT], [_use()], [_result(), _result("t9")]), "unexpected `tool_use_id`.*t9"),
    (_body([_result()]), "unexpected `tool_use_id`"),
    (_body([TEXT], [_use()], [_result()], [TEXT], [_result()]), "unexpected `tool_use_id`"),
    (_body([TEXT], [_use(), _use()], [_result()]), "must be unique"),
]


@pytest.mark.parametrize(("body", "message"), BAD)
def test_what_the_api_refuses_is_refused(body: dict[str, Any], message: str) -> None:
    with pytest.raises(Refused, match=message) as caught:
        check_body(body, VERSION)
    assert caught.value.status == 400


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda m: m[0].update(role="assistant"), "first message"),
        (lambda m: m[0].update(role="system"), "role"),
        (lambda m: m[0].update(content=" "), "non-whitespace"),
        (lambda m: m[0].update(content=5), "a text or a list"),
        (lambda m: m[0].update(name="x"), "name: Extra inputs"),
        (lambda m: m.append("x"), "should be an object"),
    ],
)
def test_a_message_of_another_shape_is_refused(edit: Edit, message: str) -> None:
    body = _body([TEXT])
    edit(body["messages"])

    with pytest.raises(Refused, match=message):
        check_body(body, VERSION)


def test_neighbours_of_one_role_are_one_turn() -> None:
    body = _body([TEXT], [_use()], [_result()])
    body["messages"][1:1] = [{"role": "assistant", "content": [_use("t0")]}]
    body["messages"][2:2] = [{"role": "assistant", "content": [TEXT]}]
    body["messages"].append({"role": "user", "content": [TEXT]})

    with pytest.raises(Refused, match=r"without `tool_result`.*t0"):
        check_body(body, VERSION)
    body["messages"][4]["content"].append(_result("t0"))
    check_body(body, VERSION)


def test_sampling_was_allowed_by_the_older_version() -> None:
    check_body(_body([TEXT], temperature=1), "2023-06-01")


HEADERS = {"x-api-key": "k", "anthropic-version": VERSION, "content-type": "application/json"}


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"x-api-key": ""}, 401),
        ({"x-api-key": "", "authorization": "Bearer "}, 401),
        ({"anthropic-version": ""}, 400),
        ({"anthropic-version": "latest"}, 400),
        ({"content-type": "text/plain"}, 400),
    ],
)
def test_headers_are_checked(changes: dict[str, str], status: int) -> None:
    with pytest.raises(Refused) as caught:
        check_headers({**HEADERS, **changes})
    assert caught.value.status == status


def test_a_bearer_is_as_good_as_a_key() -> None:
    check_headers({**HEADERS, "x-api-key": "", "authorization": "Bearer k"})


@pytest.mark.parametrize("raw", [b"", b"[]", b"{", b"\xff", json.dumps({"a": "\ud800"}).encode()])
def test_a_body_that_is_no_json_object_is_refused(raw: bytes) -> None:
    with pytest.raises(Refused, match="request body"):
        read_body(raw)


def test_a_body_beyond_the_limit_is_too_large() -> None:
    with pytest.raises(Refused) as caught:
        read_body(b" " * (32 * 1024 * 1024 + 1))
    assert caught.value.status == 413
