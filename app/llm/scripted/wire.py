"""An answer as it stands on the wire: one JSON message, or a stream of named events."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from app.domain.canonical import Json
from app.llm.scripted.script import Answer, Break

Event = dict[str, Any]
_TOOL_USES = ("tool_use", "server_tool_use", "mcp_tool_use")


def encode_json(value: Json) -> bytes:
    """Raw UTF-8 as the real server writes it; escapes only where UTF-8 has no word (half pairs)."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()


def encode_event(event: Event) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (str(event["type"]).encode(), encode_json(event))


def count_usage(body: dict[str, Any], answer: Answer, k: int) -> dict[str, int]:
    """Tokens from sizes: the prefix up to the last breakpoint is written first and read later."""
    whole = _tokens([body.get("tools"), body.get("system"), body["messages"]])
    cached = whole // 2 if '"cache_control"' in json.dumps(body) else 0
    counted = {
        "input_tokens": whole - cached,
        "cache_creation_input_tokens": cached if k == 0 else 0,
        "cache_read_input_tokens": cached if k > 0 else 0,
        "output_tokens": _tokens(answer.content),
    }
    return counted | answer.usage


def build_message(answer: Answer, head: dict[str, Any], usage: dict[str, int]) -> dict[str, Any]:
    content = [_without_raw_input(block) for block in answer.content]
    return {
        **head,
        "content": content,
        "stop_reason": answer.stop_reason,
        "stop_sequence": None,
        "usage": usage,
    }


def build_events(answer: Answer, head: dict[str, Any], usage: dict[str, int]) -> list[Event]:
    started = {**usage, "output_tokens": 1}
    message = {
        **head,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": started,
    }
    events: list[Event] = [{"type": "message_start", "message": message}, {"type": "ping"}]
    for index, block in enumerate(answer.content):
        events += _block_events(index, block)
    delta = {"stop_reason": answer.stop_reason, "stop_sequence": None}
    events.append({"type": "message_delta", "delta": delta, "usage": usage})
    events.append({"type": "message_stop"})
    return events if answer.broken is None else break_off(events, answer.broken)


def break_off(events: list[Event], broken: Break) -> list[Event]:
    match broken.at:
        case "before_start":
            return []
        case "after_start":
            return events[:1]
        case "mid_text":
            return events[: _find_middle(events)]
        case "before_stop":
            return events[:-1]


def _find_middle(events: list[Event]) -> int:
    deltas = [i for i, event in enumerate(events) if event["type"] == "content_block_delta"]
    return deltas[len(deltas) // 2] if deltas else len(events) // 2


def _block_events(index: int, block: dict[str, Any]) -> Iterator[Event]:
    start, deltas = _unfold(block)
    yield {"type": "content_block_start", "index": index, "content_block": start}
    for delta in deltas:
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "content_block_stop", "index": index}


def _unfold(block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The block as it starts, its keys in place, and the deltas that fill it."""
    match block:
        case {"type": "text", "text": str(text)}:
            return _unfold_text(block, text)
        case {"type": "thinking", "thinking": str(thinking)}:
            deltas = [{"type": "thinking_delta", "thinking": piece} for piece in _cut(thinking)]
            if "signature" not in block:
                return {**block, "thinking": ""}, deltas
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
            return {**block, "thinking": "", "signature": ""}, deltas
        case {"type": type_} if type_ in _TOOL_USES:
            pieces = ["", *_cut(_raw_input(block))]
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
            return {**_without_raw_input(block), "input": {}}, deltas
        case _:
            return block, []


def _unfold_text(block: dict[str, Any], text: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    deltas: list[dict[str, Any]] = [{"type": "text_delta", "text": piece} for piece in _cut(text)]
    citations = block.get("citations")
    if not citations:
        return {**block, "text": ""}, deltas
    deltas += [{"type": "citations_delta", "citation": citation} for citation in citations]
    return {**block, "text": "", "citations": []}, deltas


def _raw_input(block: dict[str, Any]) -> str:
    """A script cuts a tool's input by giving the text that was streamed, as `partial_json`."""
    if "partial_json" in block:
        return str(block["partial_json"])
    given = block.get("input") or {}
    return json.dumps(given, ensure_ascii=False) if given else ""


def _without_raw_input(block: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in block.items() if key != "partial_json"}


def _cut(text: str) -> list[str]:
    size = max(16, len(text) // 64)
    return [text[i : i + size] for i in range(0, len(text), size)]


def _tokens(value: Json) -> int:
    return len(json.dumps(value)) // 4 + 1
