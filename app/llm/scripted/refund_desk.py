"""The script of the built-in `refund-desk` agent: look the order up, pay it back, say so."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from app.llm.scripted.scene import Call, Scene

_ORDER = re.compile(r"\border\s*#?\s*([\w-]*\d[\w-]*)|\b(\d{3,})\b", re.IGNORECASE)
_WIRE = re.compile(r"\b(wire|transfer)", re.IGNORECASE)
_HELP = (
    "I am the scripted model: I follow rules, I do not think. Ask me to refund an order (for "
    'example "Refund order 1001"), or send the answers I shall give as {"script": [...]}.'
)


def run_refund_desk(scene: Scene) -> Mapping[str, Any]:
    order = _find_order(scene.text)
    if order is None or "find_order" not in scene.tools:
        return {"text": _HELP}
    if not scene.calls:
        return _call("find_order", {"order_id": order}, f"Let me look up order {order}.")
    last = scene.calls[-1]
    if last.tool != "find_order":
        return _report(last, order)
    cents = _read_rest(last)
    if cents is None:
        return {"text": f"I could not find order {order}: {last.result}"}
    if cents <= 0:
        return {"text": f"Order {order} has been refunded in full already."}
    tool = "wire_transfer" if _WIRE.search(scene.text) else "refund"
    return _call(tool, {"order_id": order, "cents": cents}, f"There is {_money(cents)} to return.")


def _find_order(text: str) -> str | None:
    found = _ORDER.search(text)
    return (found[1] or found[2]) if found else None


def _call(tool: str, args: dict[str, Any], text: str) -> dict[str, Any]:
    return {"text": text, "calls": [{"tool": tool, "args": args}]}


def _read_rest(call: Call) -> int | None:
    """What the order cost, less what was returned of it."""
    try:
        found = json.loads(call.result or "")
        rest = found["total_cents"] - found.get("returned_cents", 0)
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    return rest if isinstance(rest, int) and not call.is_error else None


def _report(call: Call, order: str) -> dict[str, Any]:
    if call.is_error:
        return {
            "text": f"Order {order} is not refunded as far as I know. I was told: {call.result}"
        }
    cents = call.args.get("cents")
    amount = _money(cents) if isinstance(cents, int) else "the amount"
    means = "by wire transfer" if call.tool == "wire_transfer" else "to the card"
    return {"text": f"Order {order} is refunded: {amount} {means}."}


def _money(cents: int) -> str:
    return f"{cents // 100}.{cents % 100:02d}"
