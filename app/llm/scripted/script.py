"""What the model does at each step, as JSON.

A script is a function from the scene to a step, or a list of steps in the user's text:
`{"script": [step, step, …]}`; step k answers the k-th request after that text, `done` the rest.

An answer:
  {"text": "…"}                                        ends the turn
  {"calls": [{"tool": "pay", "args": {…}, "id"?}], "text"?, "thinking"?}     asks for tools
  {"content": [raw blocks], "stop_reason": "…"}        anything else, sent as it is
  {"events": [raw events]}                             a stream to the letter (no message_stop: cut)
with "stop_reason", "model", "usage" {…} and "delay" (seconds) where wanted. In a text and in
arguments `{{last_result}}` is the text of the newest tool result.

An answer that breaks off, after a place `after_start`, `mid_text` or `before_stop`:
  {"cut": place}                                       the connection drops
  {"error": "overloaded_error", "at"?: place}          an error event ends it (default mid_text)
  {"stall": true | place}                              nothing more until the client leaves

No answer:
  {"status": 429, "headers"?: {"retry-after": "1"}, "message"?, "body"?: "raw text"}

The n-th request for one step (same scripted text, same k) can differ, the only thing remembered:
  {"times": [step, step, …]}                           the last one repeats
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from app.domain.canonical import Json
from app.llm.scripted.refusal import Refused
from app.llm.scripted.scene import Scene

Script = Callable[[Scene], Mapping[str, Any]]
Place = Literal["before_start", "after_start", "mid_text", "before_stop"]

DONE: dict[str, Any] = {"text": "done"}
_BROKEN_TEXT = "This answer breaks off before its end."
_ANSWER = {"text", "calls", "thinking", "content", "stop_reason", "model", "usage", "delay"}
_STEP = _ANSWER | {"cut", "error", "at", "stall", "events", "status", "headers", "message", "body"}


@dataclass(frozen=True)
class Break:
    """Where an answer breaks off, and how; `error` is the type of the error event."""

    at: Place
    how: Literal["cut", "error", "stall"]
    error: str = ""


@dataclass(frozen=True)
class Answer:
    content: list[dict[str, Any]]
    stop_reason: str
    model: str | None = None
    usage: dict[str, int] = field(default_factory=dict)
    delay: float = 0.0
    broken: Break | None = None


@dataclass(frozen=True)
class RawEvents:
    events: list[dict[str, Any]]


@dataclass(frozen=True)
class HttpError:
    status: int
    headers: dict[str, str]
    message: str
    body: str | None


Step = Answer | RawEvents | HttpError


def follow(*steps: Mapping[str, Any]) -> Script:
    """The script that takes the steps in order, then says `done`."""

    def pick(scene: Scene) -> Mapping[str, Any]:
        return pick_step(steps, scene.k)

    return pick


def pick_step(steps: Sequence[Mapping[str, Any]], k: int) -> Mapping[str, Any]:
    return steps[k] if k < len(steps) else DONE


def read_step(step: Mapping[str, Any], scene: Scene, name_id: Callable[[int], str]) -> Step:
    """`name_id` gives the id of the turn's n-th call where the script sets none."""
    unknown = step.keys() - _STEP
    if unknown:
        raise Refused(f"script: step {scene.k} has unknown keys {sorted(unknown)}")
    if "status" in step:
        message = step.get("message", "as the script says")
        return HttpError(step["status"], step.get("headers", {}), message, step.get("body"))
    if "events" in step:
        return RawEvents(step["events"])
    return _read_answer(_fill(dict(step), scene.last_result), scene, name_id)


def _read_answer(step: dict[str, Any], scene: Scene, name_id: Callable[[int], str]) -> Answer:
    broken = _read_break(step)
    content = step["content"] if "content" in step else _build_content(step, name_id)
    if not content and broken:
        content = [{"type": "text", "text": _BROKEN_TEXT}]
    if not content and "content" not in step:
        raise Refused(f"script: step {scene.k} says nothing")
    return Answer(
        content=content,
        stop_reason=step.get("stop_reason", "tool_use" if step.get("calls") else "end_turn"),
        model=step.get("model"),
        usage=step.get("usage", {}),
        delay=step.get("delay", 0.0),
        broken=broken,
    )


def _read_break(step: dict[str, Any]) -> Break | None:
    if "cut" in step:
        return Break(_place(step["cut"]), "cut")
    if "error" in step:
        return Break(_place(step.get("at", "mid_text")), "error", step["error"])
    if "stall" in step:
        at = step["stall"]
        return Break("before_start" if at is True else _place(at), "stall")
    return None


def _place(name: object) -> Place:
    for place in get_args(Place)[1:]:
        if place == name:
            return place  # type: ignore[no-any-return]
    raise Refused(f"script: {name!r} is no place, but {get_args(Place)[1:]} are")


def _build_content(step: dict[str, Any], name_id: Callable[[int], str]) -> list[dict[str, Any]]:
    content: list[dict[str, Any]] = []
    if "thinking" in step:
        signature = name_id(-1).removeprefix("toolu_")
        content.append({"type": "thinking", "thinking": step["thinking"], "signature": signature})
    if "text" in step:
        content.append({"type": "text", "text": step["text"]})
    for n, call in enumerate(step.get("calls", [])):
        content.append(
            {
                "type": "tool_use",
                "id": call.get("id") or name_id(n),
                "name": call["tool"],
                "input": call.get("args", {}),
            }
        )
    return content


def _fill(value: Json, last_result: str) -> Json:
    match value:
        case str():
            return value.replace("{{last_result}}", last_result)
        case list():
            return [_fill(item, last_result) for item in value]
        case dict():
            return {key: _fill(item, last_result) for key, item in value.items()}
        case _:
            return value
