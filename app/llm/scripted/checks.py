"""Everything the real API refuses with a 400 (or 401, 413), in its words where they are known."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from app.domain.canonical import Json
from app.llm.scripted.pairing import check_pairs
from app.llm.scripted.refusal import Refused

_FIELDS = frozenset(
    {
        *("model", "max_tokens", "messages", "system", "tools", "tool_choice", "stream"),
        *("thinking", "stop_sequences", "metadata", "output_config", "cache_control"),
        *("service_tier", "container", "context_management", "mcp_servers", "speed"),
        *("inference_geo", "diagnostics"),
    }
)
_SAMPLING = frozenset({"temperature", "top_p", "top_k"})
_SAMPLING_REMOVED = "2026-10-21"
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_TOOL_ID = re.compile(r"[a-zA-Z0-9_-]+")
_VERSION = re.compile(r"\d{4}-\d{2}-\d{2}")
_ASSISTANT_ONLY = frozenset({"tool_use", "thinking", "redacted_thinking", "server_tool_use"})
_USER_ONLY = frozenset({"tool_result", "image", "document", "search_result"})
_UNCACHEABLE = frozenset({"thinking", "redacted_thinking"})
_MAX_BYTES = 32 * 1024 * 1024
_MAX_BREAKPOINTS = 4
_MIN_BUDGET = 1024


def require(condition: object, message: str) -> None:
    if not condition:
        raise Refused(message)


def check_headers(headers: Mapping[str, str]) -> None:
    bearer = headers.get("authorization", "").removeprefix("Bearer ").strip()
    if not headers.get("x-api-key") and not bearer:
        raise Refused("x-api-key header is required", 401)
    version = headers.get("anthropic-version", "")
    require(_VERSION.fullmatch(version), "anthropic-version: header is required")
    content_type = headers.get("content-type", "").partition(";")[0].strip()
    require(content_type == "application/json", "content-type: must be application/json")


def read_body(raw: bytes) -> dict[str, Any]:
    if len(raw) > _MAX_BYTES:
        raise Refused("Request exceeds the maximum size", 413)
    try:
        body = json.loads(raw)
        json.dumps(body, ensure_ascii=False).encode()  # refuses lone surrogates
    except (ValueError, RecursionError) as error:
        raise Refused(f"The request body is not valid JSON: {error}") from error
    require(isinstance(body, dict), "The request body is not a JSON object")
    return body  # type: ignore[no-any-return]


def check_body(body: dict[str, Any], version: str) -> None:
    allowed = _FIELDS if version >= _SAMPLING_REMOVED else _FIELDS | _SAMPLING
    for name in body.keys() - allowed:
        raise Refused(f"{name}: Extra inputs are not permitted")
    for name in ("model", "max_tokens", "messages"):
        require(name in body, f"{name}: Field required")
    require(isinstance(body["model"], str) and body["model"], "model: a name is expected")
    require(_is_int(body["max_tokens"]), "max_tokens: Input should be a valid integer")
    require(body["max_tokens"] >= 1, "max_tokens: Input should be greater than or equal to 1")
    require(isinstance(body.get("stream", False), bool), "stream: Input should be a valid boolean")
    _check_thinking(body)
    _check_system(body.get("system", []))
    _check_tools(body.get("tools", []))
    _check_messages(body["messages"])
    _check_breakpoints(body)
    check_pairs(body["messages"])


def _check_thinking(body: dict[str, Any]) -> None:
    thinking = body.get("thinking", {"type": "disabled"})
    kind = thinking.get("type") if isinstance(thinking, dict) else None
    require(kind in ("enabled", "disabled", "adaptive"), "thinking.type: not a known kind")
    if kind == "enabled":
        budget = thinking.get("budget_tokens")
        enough = _is_int(budget) and budget >= _MIN_BUDGET
        require(enough, f"thinking.budget_tokens: must be at least {_MIN_BUDGET}")
        message = "`max_tokens` must be greater than `thinking.budget_tokens`"
        require(body["max_tokens"] > budget, message)


def _check_system(system: Json) -> None:
    if isinstance(system, str):
        return
    require(isinstance(system, list), "system: Input should be a valid list")
    for i, block in enumerate(system):
        is_text = isinstance(block, dict) and block.get("type") == "text"
        require(is_text, f"system.{i}: a text block is expected")
        _check_text(block, f"system.{i}")


def _check_tools(tools: Json) -> None:
    require(isinstance(tools, list), "tools: Input should be a valid list")
    names = [_check_tool(tool, f"tools.{i}") for i, tool in enumerate(tools)]
    require(len(names) == len(set(names)), "tools: Tool names must be unique.")


def _check_tool(tool: Json, at: str) -> str:
    require(isinstance(tool, dict), f"{at}: Input should be an object")
    name = tool.get("name")
    fits = isinstance(name, str) and _TOOL_NAME.fullmatch(name)
    require(fits, f"{at}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")
    if tool.get("type", "custom") == "custom":
        schema = tool.get("input_schema")
        is_object = isinstance(schema, dict) and schema.get("type") == "object"
        require(is_object, f"{at}.input_schema.type: Input should be 'object'")
        described = isinstance(tool.get("description", ""), str)
        require(described, f"{at}.description: Input should be a valid string")
    return str(name)


def _check_messages(messages: Json) -> None:
    require(isinstance(messages, list), "messages: Input should be a valid list")
    require(messages, "messages: at least one message is required")
    for i, message in enumerate(messages):
        at = f"messages.{i}"
        require(isinstance(message, dict), f"{at}: Input should be an object")
        for name in message.keys() - {"role", "content"}:
            raise Refused(f"{at}.{name}: Extra inputs are not permitted")
        is_known = message.get("role") in ("user", "assistant")
        require(is_known, f"{at}.role: Input should be 'user' or 'assistant'")
        _check_content(message, at)
    require(messages[0]["role"] == "user", 'messages: first message must use the "user" role')


def _check_content(message: dict[str, Any], at: str) -> None:
    content = message.get("content")
    require(isinstance(content, str | list), f"{at}.content: a text or a list is expected")
    require(content, f"{at}: all messages must have non-empty content")
    if isinstance(content, str):
        require(content.strip(), f"{at}: text content must contain non-whitespace text")
        return
    for j, block in enumerate(content or []):
        _check_block(block, message["role"], f"{at}.content.{j}")


def _check_block(block: Json, role: str, at: str) -> None:
    require(isinstance(block, dict) and isinstance(block.get("type"), str), f"{at}.type: required")
    kind = block["type"]
    misplaced = _ASSISTANT_ONLY if role == "user" else _USER_ONLY
    require(kind not in misplaced, f"{at}: `{kind}` blocks are not permitted in {role} messages")
    match kind:
        case "text":
            _check_text(block, at)
            cited = role == "user" and block.get("citations")
            require(not cited, f"{at}.citations: not permitted in user messages")
        case "tool_use":
            _check_tool_use(block, at)
        case "tool_result":
            _check_tool_result(block, at)
        case "thinking":
            is_signed = isinstance(block.get("thinking"), str) and block.get("signature")
            require(is_signed, f"{at}.thinking.signature: Field required")
        case "redacted_thinking":
            require(block.get("data"), f"{at}.redacted_thinking.data: Field required")


def _check_text(block: dict[str, Any], at: str) -> None:
    text = block.get("text")
    require(isinstance(text, str), f"{at}.text: Input should be a valid string")
    require(text, f"{at}: text content blocks must be non-empty")
    require(str(text).strip(), f"{at}: text content blocks must contain non-whitespace text")


def _check_tool_use(block: dict[str, Any], at: str) -> None:
    for name in ("id", "name"):
        fits = isinstance(block.get(name), str) and _TOOL_ID.fullmatch(block[name])
        require(fits, f"{at}.tool_use.{name}: String should match pattern '^[a-zA-Z0-9_-]+$'")
    is_object = isinstance(block.get("input"), dict)
    require(is_object, f"{at}.tool_use.input: Input should be a valid dictionary")
    is_clean = "partial_json" not in block
    require(is_clean, f"{at}.tool_use.partial_json: Extra inputs are not permitted")


def _check_tool_result(block: dict[str, Any], at: str) -> None:
    known = {"type", "tool_use_id", "content", "is_error", "cache_control"}
    for name in block.keys() - known:
        raise Refused(f"{at}.tool_result.{name}: Extra inputs are not permitted")
    is_named = isinstance(block.get("tool_use_id"), str)
    require(is_named, f"{at}.tool_result.tool_use_id: Field required")
    is_bool = isinstance(block.get("is_error", False), bool)
    require(is_bool, f"{at}.tool_result.is_error: Input should be a valid boolean")
    content = block.get("content", "")
    if isinstance(content, str):
        return
    require(isinstance(content, list), f"{at}.tool_result.content: a text or a list is expected")
    for k, part in enumerate(content):
        _check_block(part, "user", f"{at}.tool_result.content.{k}")


def _check_breakpoints(body: dict[str, Any]) -> None:
    messages = body["messages"]
    contents = (m["content"] for m in messages if isinstance(m["content"], list))
    system = body.get("system", [])
    roots = chain(body.get("tools", []), system if isinstance(system, list) else [], *contents)
    marked = [block for block in _nested(roots) if block.get("cache_control") is not None]
    for block in marked:
        is_ephemeral = _is_ephemeral(block["cache_control"])
        require(is_ephemeral, "cache_control.type: Input should be 'ephemeral'")
        kind = str(block.get("type"))
        require(kind not in _UNCACHEABLE, f"{kind}.cache_control: Extra inputs are not permitted")
    count = len(marked) + (body.get("cache_control") is not None)
    message = f"A maximum of 4 blocks with cache_control may be provided. Found {count}."
    require(count <= _MAX_BREAKPOINTS, message)


def _nested(blocks: Json) -> Iterator[dict[str, Any]]:
    for block in blocks:
        yield block
        if block.get("type") == "tool_result" and isinstance(block.get("content"), list):
            yield from block["content"]


def _is_ephemeral(mark: Json) -> bool:
    return isinstance(mark, dict) and mark.get("type") == "ephemeral"


def _is_int(value: Json) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
