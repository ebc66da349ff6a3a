import json
from typing import Any

from app.llm.body import build_body
from app.llm.client import ModelRequest


def _request(messages: list[dict[str, Any]], **more: Any) -> ModelRequest:
    given = {"system": [], "tools": [], **more}
    return ModelRequest("claude-sonnet-5", 100, messages=messages, **given)


def test_empty_parts_stay_out() -> None:
    body = build_body(_request([{"role": "user", "content": "hi"}]))

    assert list(body) == ["model", "max_tokens", "messages"]


def test_given_parts_go_out_as_they_are() -> None:
    system = [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}]
    tools = [{"name": "pay", "input_schema": {"type": "object", "b": 1, "a": 1.0}}]

    body = build_body(_request([], system=system, tools=tools, thinking={"type": "adaptive"}))

    assert json.dumps([body["system"], body["tools"], body["thinking"]]) == json.dumps(
        [system, tools, {"type": "adaptive"}]
    )


def test_lone_halves_are_replaced_and_nothing_else() -> None:
    text = "a\ud83db\udc00 \0 \u2028 😀 " + "\ud83d\ude00"

    messages = build_body(_request([{"role": "user", "content": [{"\ud800": text}]}]))["messages"]

    assert messages == [{"role": "user", "content": [{"\ufffd": "a\ufffdb\ufffd \0 \u2028 😀 😀"}]}]


def test_the_mark_of_a_cut_input_is_ours_and_stays_here() -> None:
    use = {"type": "tool_use", "id": "t", "name": "pay", "input": {}}
    kept = {"type": "hologram", "partial_json": "theirs"}
    request = _request([{"role": "assistant", "content": [{**use, "partial_json": "{"}, kept]}])

    body = build_body(request)

    assert body["messages"][0]["content"] == [use, kept]
    assert "partial_json" in request.messages[0]["content"][0]
