"""A whole answer, put together from the events of a stream without losing a value.

The SDK's own reading drops unknown deltas, re-orders keys, and takes a tool input that was cut for
a whole one (`{"amount": 12` becomes 12); here every block stays as the server sent it.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from typing import Any

from app.domain.canonical import Json
from app.llm.body import PARTIAL_INPUT
from app.llm.client import ModelAnswer, Usage
from app.llm.text import join_pairs

_USAGE_FIELDS = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "cache_read_input_tokens": "cache_read_tokens",
    "cache_creation_input_tokens": "cache_write_tokens",
}

# Of one call; whatever claims more is no count, and would not fit into our tables.
_MOST_TOKENS = 10**9

# What is nested deeper, neither the next request nor the API could carry.
DEEPEST = 200


class MalformedAnswer(Exception):
    """The server sent something that is not an answer of this wire."""


class ProviderError(Exception):
    """The server said, after its 200, that the answer failed."""

    def __init__(self, type_: str, message: str) -> None:
        super().__init__(message)
        self.type = type_


class Assembly:
    """Takes a stream's events one by one; `answer()` is whole once `finished`."""

    def __init__(self) -> None:
        self.finished = False
        self._model = ""
        self._stop_reason: str | None = None
        self._usage: dict[str, int] = {}
        self._blocks: dict[int, dict[str, Any]] = {}
        # Joined once at the end: adding delta by delta copies the whole text each time.
        self._pieces: dict[int, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))

    def feed(self, data: str) -> str | None:
        """Takes in one event's data; returns the piece of visible text in it, if any."""
        try:
            return self._take(read_json(data))
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
            raise MalformedAnswer(f"unreadable event: {type(error).__name__}") from error

    def answer(self) -> ModelAnswer:
        return ModelAnswer(
            model=self._model,
            stop_reason=_read_reason(self._stop_reason),
            content=_bearable([self._whole(index) for index in sorted(self._blocks)]),
            usage=Usage(**self._usage),
        )

    def _take(self, event: dict[str, Any]) -> str | None:
        match event["type"]:
            case "message_start":
                self._start(event["message"])
            case "content_block_start":
                self._blocks[int(event["index"])] = dict(event["content_block"])
            case "content_block_delta":
                return self._add(int(event["index"]), event["delta"])
            case "message_delta":
                self._stop_reason = event["delta"].get("stop_reason") or self._stop_reason
                self._count(event.get("usage"))
            case "message_stop":
                self.finished = True
            case "error":
                raise provider_error(event)
            case _:
                pass  # ping, content_block_stop, and whatever the wire grows
        return None

    def _start(self, message: dict[str, Any]) -> None:
        self._model = str(message["model"])
        self._stop_reason = message.get("stop_reason")
        self._blocks = {i: dict(block) for i, block in enumerate(message.get("content") or [])}
        self._count(message.get("usage"))

    def _count(self, usage: dict[str, Any] | None) -> None:
        self._usage |= read_usage(usage)

    def _add(self, index: int, delta: dict[str, Any]) -> str | None:
        block = self._blocks[index]
        match delta["type"]:
            case "text_delta":
                self._append(index, "text", delta["text"])
                return str(delta["text"])
            case "thinking_delta":
                self._append(index, "thinking", delta["thinking"])
            case "signature_delta":
                block["signature"] = delta["signature"]
            case "input_json_delta":
                self._append(index, PARTIAL_INPUT, delta["partial_json"])
            case "citations_delta":
                block["citations"] = [*(block.get("citations") or []), delta["citation"]]
            case _:
                self._add_unknown(index, delta)
        return None

    def _append(self, index: int, key: str, piece: object) -> None:
        if not isinstance(piece, str):
            raise TypeError(f"{key} is no text")
        self._pieces[index][key].append(piece)

    def _add_unknown(self, index: int, delta: dict[str, Any]) -> None:
        """Follows the wire's habit: texts and lists grow, anything else is the newest value."""
        block = self._blocks[index]
        for key, value in delta.items():
            if key == "type":
                continue
            match value, block.get(key):
                case str(), str() | None:
                    self._append(index, key, value)
                case list(), list() as before:
                    block[key] = [*before, *value]
                case _:
                    block[key] = value

    def _whole(self, index: int) -> dict[str, Any]:
        block = dict(self._blocks[index])
        for key, pieces in self._pieces[index].items():
            if key == PARTIAL_INPUT:
                _fill_input(block, join_pairs("".join(pieces)))
            else:
                block[key] = join_pairs((block.get(key) or "") + "".join(pieces))
        return block


def _fill_input(block: dict[str, Any], raw: str) -> None:
    if not raw:
        return
    try:
        block["input"] = read_json(raw)
    except RecursionError:
        raise _too_deep() from None
    except ValueError:
        block["input"] = {}
        block[PARTIAL_INPUT] = raw


def _bearable(content: list[dict[str, Any]]) -> list[dict[str, Any]]:
    rest: list[tuple[Json, int]] = [(block, 0) for block in content]
    while rest:
        item, depth = rest.pop()
        if depth > DEEPEST:
            raise _too_deep()
        if isinstance(item, dict | list):
            within = item.values() if isinstance(item, dict) else item
            rest += [(each, depth + 1) for each in within]
    return content


def _too_deep() -> MalformedAnswer:
    return MalformedAnswer(f"nested more than {DEEPEST} levels deep")


def read_message(payload: Json) -> ModelAnswer:
    """The answer of a server that does not stream."""
    try:
        if payload["type"] == "error":
            raise provider_error(payload)
        return ModelAnswer(
            model=str(payload["model"]),
            stop_reason=_read_reason(payload["stop_reason"]),
            content=_bearable([dict(block) for block in payload["content"]]),
            usage=Usage(**read_usage(payload.get("usage"))),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise MalformedAnswer(f"unreadable answer: {type(error).__name__}") from error


def _read_reason(reason: object) -> str:
    if not isinstance(reason, str):
        raise MalformedAnswer("the answer has no stop reason")
    return reason


def read_usage(usage: dict[str, Any] | None) -> dict[str, int]:
    """The counts that are there; a missing or null one says nothing."""
    given = usage or {}
    return {
        ours: given[theirs] for theirs, ours in _USAGE_FIELDS.items() if _is_count(given, theirs)
    }


def _is_count(usage: dict[str, Any], name: str) -> bool:
    count = usage.get(name)
    return isinstance(count, int) and not isinstance(count, bool) and 0 <= count <= _MOST_TOKENS


def provider_error(payload: dict[str, Any]) -> ProviderError:
    error = payload.get("error")
    if not isinstance(error, dict):
        return ProviderError("api_error", str(error))
    return ProviderError(str(error.get("type", "api_error")), str(error.get("message", "")))


def read_json(text: str | bytes) -> Json:
    """JSON as the standard has it: what could not be written again is refused."""
    return json.loads(text, parse_constant=_refuse, parse_float=_finite)


def _refuse(name: str) -> float:
    raise ValueError(f"{name} is no JSON")


def _finite(literal: str) -> float:
    number = float(literal)
    if not math.isfinite(number):
        raise ValueError(f"{literal} is out of range")
    return number
