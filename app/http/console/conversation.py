"""What was said and done in a run, in the order in which a person reads it."""

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any
from urllib.parse import quote, urlencode

from app.services.views_pages import Listing
from app.services.views_story import Story

Json = dict[str, Any]

THOUGHTS = {"thinking": "thinking", "redacted_thinking": None}


def texts(said: Any) -> list[Json]:  # noqa: ANN401 - an input is text or content blocks
    """An input, an output or a message as blocks that a page can show."""
    if isinstance(said, str):
        return [{"kind": "text", "text": said}]
    return [_block(block) for block in said or ()]


def first_line(said: Any) -> str:  # noqa: ANN401 - as above
    """The first words of an input, for a list."""
    for block in texts(said):
        if block["kind"] == "text" and block["text"].strip():
            return str(block["text"].strip().splitlines()[0])[:200]
    return "(no text)"


def conversation(story: Story) -> list[Json]:
    """Turns with the messages before them, each tool call with its row in the ledger."""
    items: list[Json] = []
    for turn in story.turns:
        number = turn["number"]
        items += _said([m for m in story.messages if m["turn"] == number])
        calls = [c for c in story.calls if c["turn"] == number and not c["compensates"]]
        blocks = list(_turn(turn, calls))
        items.append({"kind": "turn", "turn": turn, "blocks": blocks, "whole": _whole(turn)})
    items += _said([m for m in story.messages if m["turn"] is None])
    return items


def undone(story: Story) -> list[Json]:
    """The calls that undo others."""
    return [call for call in story.calls if call["compensates"]]


def waits_by_call(waits: Sequence[Json]) -> dict[str, list[Json]]:
    found: dict[str, list[Json]] = {}
    for wait in waits:
        if wait["call"]:
            found.setdefault(wait["call"], []).append(wait)
    return found


def _said(messages: Sequence[Json]) -> list[Json]:
    return [{"kind": "message", "message": message} for message in messages]


def _whole(turn: Json) -> str:
    """Where the turn alone is, as JSON."""
    run, before = turn["run"], turn["number"] - 1
    after = Listing("turns", 1, filters={"run": run}).cursor((before,))
    return f"/v1/runs/{quote(run)}/turns?{urlencode({'limit': 1, 'after': after})}"


def _turn(turn: Json, calls: Sequence[Json]) -> Iterator[Json]:
    """The n-th tool use of an answer is the call with that index; not all calls may be here."""
    rest = {call["index"]: call for call in calls}
    uses = count()
    for block in turn["content"] or ():
        if isinstance(block, dict) and block.get("type") == "tool_use":
            call = rest.pop(next(uses), None)
            yield {"kind": "call", "call": call} if call else _block(block)
        else:
            yield _block(block)
    # A fork's copies, and what a page shows of an answer that is not whole.
    for call in rest.values():
        yield {"kind": "call", "call": call}


def _block(block: Any) -> Json:  # noqa: ANN401 - of the model or of a client
    kind = block.get("type") if isinstance(block, dict) else None
    if kind == "text" and isinstance(block.get("text"), str):
        return {"kind": "text", "text": block["text"]}
    if kind in THOUGHTS:
        return {"kind": "thought", "text": str(block.get(THOUGHTS[kind] or "") or "(not readable)")}
    return {"kind": "other", "type": str(kind or "block"), "json": block}
