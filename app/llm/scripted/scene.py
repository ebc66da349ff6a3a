"""Where a conversation stands, read from the request alone: asked again, it is the same scene."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from app.llm.scripted.refusal import Refused

Steps = list[dict[str, Any]]
_EMBEDDED = re.compile(r'\{\s*"script"\s*:')


@dataclass(frozen=True)
class Call:
    """A call the model made in this scene; `result` is None while there is none."""

    tool: str
    args: dict[str, Any]
    result: str | None
    is_error: bool


@dataclass(frozen=True)
class Scene:
    """`text` opened the scene, `k` answers followed it; `steps` is the script inside `text`."""

    model: str
    k: int
    text: str
    steps: Steps | None
    calls: tuple[Call, ...]
    tools: frozenset[str]

    @property
    def last_result(self) -> str:
        return next((c.result for c in reversed(self.calls) if c.result is not None), "")


def read_scene(body: dict[str, Any]) -> Scene:
    messages = body["messages"]
    opening, steps = _find_opening(messages)
    following = messages[opening + 1 :]
    return Scene(
        model=body["model"],
        k=_count_answers(following, steps),
        text=user_text(messages[opening]),
        steps=steps,
        calls=tuple(_read_calls(following)),
        tools=frozenset(tool["name"] for tool in body.get("tools", [])),
    )


def _find_opening(messages: list[dict[str, Any]]) -> tuple[int, Steps | None]:
    """The newest script still under way, else the newest plain text of the user.

    A script goes on over later texts: a message that reaches the model in mid-run is no new scene.
    """
    users = [i for i, message in enumerate(messages) if message["role"] == "user"]
    plain = max((i for i in users if _is_plain(messages[i])), default=0)
    for i in reversed(users):
        steps = read_embedded(user_text(messages[i]))
        if steps is not None:
            is_under_way = _count_answers(messages[i + 1 :], steps) < len(steps)
            return (i, steps) if is_under_way or i >= plain else (plain, None)
    return plain, None


def read_embedded(text: str) -> Steps | None:
    """The steps of the last JSON object `{"script": [...]}` in the text, fenced or bare."""
    steps = None
    found = _EMBEDDED.search(text)
    while found is not None:
        try:
            embedded, end = json.JSONDecoder().raw_decode(text, found.start())
        except ValueError as error:
            raise Refused(f"script: {error}") from error
        steps = embedded["script"]
        if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
            raise Refused("script: a list of steps is expected")
        found = _EMBEDDED.search(text, end)
    return steps


def blocks_of(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def user_text(message: dict[str, Any]) -> str:
    return "\n".join(block["text"] for block in blocks_of(message) if block["type"] == "text")


def _is_plain(message: dict[str, Any]) -> bool:
    types = {block["type"] for block in blocks_of(message)}
    return "text" in types and "tool_result" not in types


def _count_answers(messages: list[dict[str, Any]], steps: Steps | None) -> int:
    """A paused answer may have been joined with the one that went on from it: unpick those."""
    k = 0
    for message in messages:
        if message["role"] == "assistant":
            k += 1
            left = len(blocks_of(message))
            while steps and 0 < (size := _paused_size(steps, k - 1)) < left:
                k += 1
                left -= size
    return k


def _paused_size(steps: Steps, k: int) -> int:
    """How many blocks step k gave if it paused, else 0."""
    step = steps[k] if k < len(steps) else {}
    if step.get("stop_reason") != "pause_turn":
        return 0
    if "content" in step:
        return len(step["content"])
    return len(step.get("calls", [])) + ("text" in step) + ("thinking" in step)


def _read_calls(messages: list[dict[str, Any]]) -> list[Call]:
    """Matched turn by turn and in order, as ids may repeat."""
    calls: list[Call] = []
    for i, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        answers = blocks_of(messages[i + 1]) if i + 1 < len(messages) else []
        results = [block for block in answers if block["type"] == "tool_result"]
        for block in blocks_of(message):
            if block["type"] == "tool_use":
                calls.append(_read_call(block, results))
    return calls


def _read_call(use: dict[str, Any], results: list[dict[str, Any]]) -> Call:
    result = next((r for r in results if r["tool_use_id"] == use["id"]), None)
    if result is None:
        return Call(use["name"], use["input"], None, False)
    results.remove(result)
    is_error = bool(result.get("is_error"))
    return Call(use["name"], use["input"], _result_text(result.get("content", "")), is_error)


def _result_text(content: str | list[dict[str, Any]]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(block["text"] for block in content if block["type"] == "text")
