"""What this server said in thinking blocks, to know them again to the byte."""

from __future__ import annotations

import json
from typing import Any

from app.llm.scripted.refusal import Refused
from app.llm.scripted.scene import blocks_of

_KINDS = {"thinking": "signature", "redacted_thinking": "data"}


class Memory:
    """`accepts_foreign`: thinking that this process never sent is let pass (after a restart)."""

    def __init__(self, *, accepts_foreign: bool) -> None:
        self._accepts_foreign = accepts_foreign
        self._blocks: dict[str, str] = {}
        self._before_call: dict[str, list[str]] = {}

    def remember(self, content: list[dict[str, Any]]) -> None:
        thinking = [block for block in content if block.get("type") in _KINDS]
        seals = [self._seal(block) for block in thinking]
        for seal, block in zip(seals, thinking, strict=True):
            self._blocks[seal] = _write(block)
        for block in content:
            if block.get("type") == "tool_use":
                known = self._before_call.setdefault(block["id"], seals)
                if known != seals:  # a repeated id: nothing can be said of it
                    self._before_call[block["id"]] = []

    def check(self, messages: list[dict[str, Any]]) -> None:
        for i, message in enumerate(messages):
            if message["role"] == "assistant":
                self._check_turn(blocks_of(message), f"messages.{i}")

    def _check_turn(self, blocks: list[dict[str, Any]], at: str) -> None:
        seals = []
        for j, block in enumerate(blocks):
            if block["type"] in _KINDS:
                seals.append(self._seal(block))
                self._check_block(block, seals[-1], f"{at}.content.{j}")
        for block in blocks:
            due = self._before_call.get(block.get("id", ""), [])
            if block["type"] == "tool_use" and any(seal not in seals for seal in due):
                raise Refused(f"{at}: a `thinking` block that led to a `tool_use` is missing")

    def _check_block(self, block: dict[str, Any], seal: str, at: str) -> None:
        sent = self._blocks.get(seal)
        if sent is None and not self._accepts_foreign:
            kind = block["type"]
            raise Refused(f"{at}: Invalid `{_KINDS[kind]}` in `{kind}` block")
        if sent is not None and sent != _write(block):
            raise Refused(
                f"{at}: `thinking` or `redacted_thinking` blocks cannot be modified. They must "
                "remain as they were in the original response."
            )

    def _seal(self, block: dict[str, Any]) -> str:
        kind = block["type"]
        return f"{kind} {block.get(_KINDS[kind], '')}"


def _write(block: dict[str, Any]) -> str:
    return json.dumps(block)
