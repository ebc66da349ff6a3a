"""The request's body as it goes out: the transcript unchanged, but for what no server accepts."""

from __future__ import annotations

from typing import Any

from app.domain.canonical import Json
from app.llm.client import ModelRequest
from app.llm.text import replace_lone_halves

PARTIAL_INPUT = "partial_json"
"""Marks a tool_use whose input was cut or was no JSON; ours, never sent to the provider."""


def build_body(request: ModelRequest) -> dict[str, Any]:
    body: dict[str, Any] = {
        "model": request.model,
        "max_tokens": request.max_tokens,
        "messages": [_without_marks(message) for message in request.messages],
    }
    if request.system:
        body["system"] = request.system
    if request.tools:
        body["tools"] = request.tools
    if request.thinking is not None:
        body["thinking"] = request.thinking
    cleaned: dict[str, Any] = replace_lone_halves(body)
    return cleaned


def _without_marks(message: dict[str, Any]) -> dict[str, Any]:
    content = message.get("content")
    if message.get("role") != "assistant" or not isinstance(content, list):
        return message
    return {**message, "content": [_without_mark(block) for block in content]}


def _without_mark(block: Json) -> Json:
    if not isinstance(block, dict) or PARTIAL_INPUT not in block:
        return block
    if block.get("type") not in ("tool_use", "server_tool_use", "mcp_tool_use"):
        return block
    return {key: value for key, value in block.items() if key != PARTIAL_INPUT}
