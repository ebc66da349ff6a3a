"""What `AnthropicModel` makes of every answer the wire knows, against the scripted server."""

import json
from typing import Any

import pytest
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from app.llm.client import ModelAnswer
from app.llm.scripted import Scripted, follow
from tests.integration.llm.conftest import Connect
from tests.integration.llm.requests import ask, assistant, results, script

STOP_REASONS = [
    "end_turn",
    "tool_use",
    "max_tokens",
    "stop_sequence",
    "pause_turn",
    "refusal",
    "model_context_window_exceeded",
    "reason_of_the_future",
]
ODD = "  \u00a0\t\r\n \\u00e9 \u2028\u2029\x85\x1c é 😀 👩‍👩‍👧 \0 \x7f end  "
HALVES = "\ud83d alone, \ude00 alone"


@pytest.mark.parametrize("stop_reason", STOP_REASONS)
async def test_every_stop_reason_comes_through_by_name(connect: Connect, stop_reason: str) -> None:
    model = await connect(Scripted())

    answer = await model.answer(ask(script({"text": "hi", "stop_reason": stop_reason})))

    assert isinstance(answer, ModelAnswer)
    assert (answer.stop_reason, answer.content) == (stop_reason, [{"type": "text", "text": "hi"}])
    assert answer.model == "claude-sonnet-5"
    assert answer.usage.input_tokens > 0
    assert answer.usage.output_tokens > 0


CONTENT: list[dict[str, Any]] = [
    {"signature": "Ab+/" * 900 + "==", "thinking": ODD, "type": "thinking", "new": {"z": 1.0}},
    {"type": "thinking", "thinking": "", "signature": "empty"},
    {"data": "Zm9v" * 500, "type": "redacted_thinking", "x": None},
    {"type": "text", "text": ODD, "citations": [{"type": "c", "cited_text": ODD}], "y": [1, 2.5]},
    {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"q": ODD}},
    {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"u": ODD, "b": 1e22}]},
    {"z": [{"b": 1, "a": {}}], "type": "hologram", "n": 10**25, "f": -0.0},
    {"type": "tool_use", "id": "t1", "name": "pay", "input": {"b": ODD, "a": 1.0}, "caller": {}},
    {"type": "tool_use", "id": "t2", "name": "now", "input": {}},
]


async def test_blocks_go_back_as_they_came(connect: Connect) -> None:
    server = Scripted(follow({"content": CONTENT, "stop_reason": "tool_use"}, {"text": "ok"}))
    model = await connect(server)

    first = await model.answer(ask("go"))
    assert isinstance(first, ModelAnswer)
    stored = json.loads(json.dumps(first.content))
    second = await model.answer(ask("go", assistant(stored), results(stored)))

    assert isinstance(second, ModelAnswer)
    assert json.dumps(first.content) == json.dumps(CONTENT)
    assert json.dumps(server.requests[1].body["messages"][1]["content"]) == json.dumps(CONTENT)


async def test_halves_of_a_pair_are_kept_when_received_and_replaced_when_sent(
    connect: Connect,
) -> None:
    server = Scripted(follow({"text": HALVES}))
    model = await connect(server)

    answer = await model.answer(ask(HALVES))
    assert isinstance(answer, ModelAnswer)
    again = await model.answer(ask("x", assistant(answer.content), *ask("y").messages))

    assert answer.content == [{"type": "text", "text": HALVES}]
    assert isinstance(again, ModelAnswer)
    sent = server.requests[0].text, server.requests[1].body["messages"][1]["content"][0]["text"]
    assert set(sent) == {"\ufffd alone, \ufffd alone"}


async def test_text_is_handed_on_while_it_comes(connect: Connect) -> None:
    model = await connect(Scripted())
    pieces: list[str] = []

    answer = await model.answer(
        ask(script({"thinking": "hidden", "text": ODD * 9})), on_text=pieces.append
    )

    assert isinstance(answer, ModelAnswer)
    assert len(pieces) > 1
    assert "".join(pieces) == ODD * 9 == answer.content[1]["text"]


async def test_a_listener_that_raises_is_heard(connect: Connect) -> None:
    model = await connect(Scripted())

    def fail(_: str) -> None:
        raise ValueError("the listener's own bug")

    with pytest.raises(ValueError, match="own bug"):
        await model.answer(ask(script({"text": "hi"})), on_text=fail)


async def test_a_cut_tool_input_is_marked_and_the_mark_is_not_sent(connect: Connect) -> None:
    server = Scripted()
    model = await connect(server)
    whole = {"type": "tool_use", "id": "t1", "name": "pay", "input": {"a": 1}}
    cut = {"type": "tool_use", "id": "t2", "name": "pay", "input": {}}
    raw = '{"amount": 12'
    step = {"content": [whole, {**cut, "partial_json": raw}], "stop_reason": "max_tokens"}
    text = script(step, {"text": "ok"})

    answer = await model.answer(ask(text))
    assert isinstance(answer, ModelAnswer)
    after = await model.answer(ask(text, assistant(answer.content), results(answer.content)))

    assert answer.stop_reason == "max_tokens"
    assert answer.content == [whole, {**cut, "partial_json": raw}]
    assert isinstance(after, ModelAnswer)
    assert server.requests[1].body["messages"][1]["content"] == [whole, cut]


async def test_unknown_deltas_and_events_do_no_harm(connect: Connect) -> None:
    message = {"model": "m", "content": [], "usage": {"input_tokens": 3}}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": message},
        {"type": "weather", "sun": True},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "x", "caption": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "x_delta", "caption": "ab"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "x_delta", "caption": ODD}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop"},
    ]
    model = await connect(Scripted(follow({"events": events})))

    answer = await model.answer(ask("go"))

    assert isinstance(answer, ModelAnswer)
    assert answer.content == [{"type": "x", "caption": "ab" + ODD}]
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (3, 0)


async def test_a_server_that_does_not_stream_is_understood(connect: Connect) -> None:
    body = {
        "type": "message",
        "model": "m",
        "content": CONTENT,
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 1, "output_tokens": 2, "cache_read_input_tokens": 3},
    }

    async def plain(scope: Scope, receive: Receive, send: Send) -> None:
        response: Response = JSONResponse(body)
        await response(scope, receive, send)

    model = await connect(plain)

    answer = await model.answer(ask("go"))

    assert isinstance(answer, ModelAnswer)
    assert json.dumps(answer.content) == json.dumps(CONTENT)
    assert answer.usage.cache_read_tokens == 3


async def test_the_whole_request_arrives(connect: Connect) -> None:
    server = Scripted(follow({"text": "ok"}))
    model = await connect(server)
    mark = {"cache_control": {"type": "ephemeral"}}
    system = [{"type": "text", "text": "be brief", **mark}]
    schema = {"type": "object", "properties": {"b": {}, "a": {"default": 1.0}}}
    tools = [{"name": "pay", "description": ODD, "input_schema": schema}]
    thinking = {"type": "adaptive"}

    answer = await model.answer(ask("go", system=system, tools=tools, thinking=thinking))

    assert isinstance(answer, ModelAnswer)
    assert answer.usage.cache_write_tokens > 0
    body = server.requests[0].body
    assert json.dumps([body["system"], body["tools"], body["thinking"]]) == json.dumps(
        [system, tools, thinking]
    )
    assert (body["model"], body["max_tokens"], body["stream"]) == ("claude-sonnet-5", 1000, True)


async def test_one_connection_serves_many_calls(connect: Connect) -> None:
    ports: set[int] = set()
    server = Scripted(follow({"text": "ok"}))

    async def watched(scope: Scope, receive: Receive, send: Send) -> None:
        ports.add(scope["client"][1])
        await server(scope, receive, send)

    model = await connect(watched)

    for _ in range(5):
        await model.answer(ask("go"))

    assert len(ports) == 1
