"""Every tool_use has exactly one tool_result in the next user turn, ahead of anything else."""

from __future__ import annotations

from collections import Counter
from itertools import takewhile
from typing import Any

from app.llm.scripted.refusal import Refused
from app.llm.scripted.scene import blocks_of


def check_pairs(messages: list[dict[str, Any]]) -> None:
    """Ids may repeat from turn to turn (real providers do that), not inside one turn."""
    turns = _merge(messages)
    owed: Counter[str] = Counter()
    for at, (role, blocks) in enumerate(turns):
        if role == "assistant":
            owed = Counter(block["id"] for block in blocks if block["type"] == "tool_use")
            _check_unique(owed, at)
            continue
        _check_results(owed, blocks, at)
        owed = Counter()
    if owed:
        _refuse_unanswered(owed, len(turns) - 1)


def _merge(messages: list[dict[str, Any]]) -> list[tuple[str, list[dict[str, Any]]]]:
    """The API joins neighbours of one role into one turn."""
    turns: list[tuple[str, list[dict[str, Any]]]] = []
    for message in messages:
        blocks = blocks_of(message)
        if turns and turns[-1][0] == message["role"]:
            turns[-1][1].extend(blocks)
        else:
            turns.append((message["role"], list(blocks)))
    return turns


def _check_unique(ids: Counter[str], at: int) -> None:
    if any(count > 1 for count in ids.values()):
        raise Refused(f"messages.{at}: `tool_use` ids must be unique")


def _check_results(owed: Counter[str], blocks: list[dict[str, Any]], at: int) -> None:
    leading = list(takewhile(lambda block: block["type"] == "tool_result", blocks))
    given = Counter(block["tool_use_id"] for block in leading)
    for block in blocks:
        if block["type"] == "tool_result" and block["tool_use_id"] not in owed:
            raise Refused(
                f"messages.{at}: unexpected `tool_use_id` found in `tool_result` blocks: "
                f"{block['tool_use_id']}. Each `tool_result` block must have a corresponding "
                "`tool_use` block in the previous message."
            )
    if owed - given:
        _refuse_unanswered(owed - given, at - 1)
    everywhere = [block for block in blocks if block["type"] == "tool_result"]
    if len(everywhere) > len(owed):
        raise Refused(
            f"messages.{at}: each tool_use must have a single result. "
            "Found multiple `tool_result` blocks with one id."
        )


def _refuse_unanswered(ids: Counter[str], at: int) -> None:
    raise Refused(
        f"messages.{at}: `tool_use` ids were found without `tool_result` blocks immediately "
        f"after: {', '.join(sorted(ids))}. Each `tool_use` block must have a corresponding "
        "`tool_result` block in the next message."
    )
