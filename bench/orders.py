"""What a run is told to do, as its input; the scripted model reads it from there."""

import json
import secrets
from collections.abc import Mapping
from typing import Any

from app.llm.scripted import Scene

POLICIES = ("read_only", "idempotent", "transactional", "at_most_once")


def use(tool: str, turns: int, then: str = "end") -> str:
    """So many turns with one call each. `then`: `end`, or `stall` in the middle of a model call."""
    return f"{tool} {turns} {then}"


def with_content(order: str, size: int) -> str:
    """The same order with so many bytes behind it that no other order has."""
    return f"{order} {secrets.token_hex(size // 2)}"


def think(turns: int) -> str:
    """So many turns without a call: the model pauses and is asked to go on."""
    pause = {
        "content": [{"type": "text", "text": "Let me think on."}],
        "stop_reason": "pause_turn",
    }
    return json.dumps({"script": [pause] * turns})


def follow(scene: Scene) -> Mapping[str, Any]:
    """The script of `use`; what stands behind it is content."""
    tool, turns, then, *_content = scene.text.split(maxsplit=3)
    if scene.k < int(turns):
        return {"text": "The next one.", "calls": [{"tool": tool, "args": {"n": scene.k}}]}
    return {"stall": True} if then == "stall" else {"text": "That is all."}
