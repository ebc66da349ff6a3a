import json
from typing import Any

from app.llm.client import ModelRequest


def ask(text: str, *more: dict[str, Any], **fields: Any) -> ModelRequest:
    messages = [{"role": "user", "content": [{"type": "text", "text": text}]}, *more]
    given: dict[str, Any] = {"max_tokens": 1000, "system": [], "tools": [], **fields}
    return ModelRequest("claude-sonnet-5", messages=messages, **given)


def script(*steps: dict[str, Any]) -> str:
    return json.dumps({"script": steps})


def assistant(content: list[dict[str, Any]]) -> dict[str, Any]:
    return {"role": "assistant", "content": content}


def results(content: list[dict[str, Any]]) -> dict[str, Any]:
    """A user message that answers every call in `content`."""
    ids = [block["id"] for block in content if block["type"] == "tool_use"]
    blocks = [{"type": "tool_result", "tool_use_id": id_, "content": "ok"} for id_ in ids]
    return {"role": "user", "content": blocks}
