import json

import pytest

from app.llm.scripted import Call, Scene
from app.llm.scripted.refund_desk import run_refund_desk

TOOLS = frozenset({"find_order", "refund", "wire_transfer"})
ORDER = {"id": "1001", "total_cents": 12_900, "returned_cents": 900}


def _scene(text: str, *calls: Call, tools: frozenset[str] = TOOLS) -> Scene:
    return Scene("scripted", len(calls), text, None, calls, tools)


def _found(order: object, is_error: bool = False) -> Call:
    result = order if isinstance(order, str) else json.dumps(order)
    return Call("find_order", {"order_id": "1001"}, result, is_error)


@pytest.mark.parametrize(
    ("text", "order"),
    [("Refund order 1001", "1001"), ("refund #order A-77.", "A-77"), ("give 1002 back", "1002")],
)
def test_the_order_is_looked_up_first(text: str, order: str) -> None:
    step = run_refund_desk(_scene(text))

    assert step["calls"] == [{"tool": "find_order", "args": {"order_id": order}}]


@pytest.mark.parametrize(
    ("text", "tool"),
    [
        ("Refund order 1001", "refund"),
        ("Wire order 1001", "wire_transfer"),
        ("Refund order 1001 by bank transfer", "wire_transfer"),
    ],
)
def test_what_is_left_of_the_order_is_paid_back(text: str, tool: str) -> None:
    step = run_refund_desk(_scene(text, _found(ORDER)))

    assert step["calls"] == [{"tool": tool, "args": {"order_id": "1001", "cents": 12_000}}]


def test_the_end_is_told_with_the_amount() -> None:
    paid = Call("refund", {"order_id": "1001", "cents": 12_005}, "{}", False)

    assert "120.05" in run_refund_desk(_scene("Refund order 1001", _found(ORDER), paid))["text"]


def test_an_unknown_outcome_is_told_and_not_repeated() -> None:
    unknown = Call("wire_transfer", {"cents": 1}, "the outcome is unknown", True)

    step = run_refund_desk(_scene("Wire order 1001", _found(ORDER), unknown))

    assert "outcome is unknown" in step["text"]
    assert "calls" not in step


@pytest.mark.parametrize("told", ["denied: not today", "expired"])
def test_what_a_person_did_not_allow_is_told_and_not_tried_in_another_way(told: str) -> None:
    refused = Call("refund", {"cents": 1}, told, True)

    step = run_refund_desk(_scene("Refund order 1001", _found(ORDER), refused))

    assert told in step["text"]
    assert "calls" not in step


@pytest.mark.parametrize(
    "found",
    [_found("There is no order", is_error=True), _found("not json"), _found([1]), _found({})],
)
def test_an_order_that_is_not_found_ends_the_turn(found: Call) -> None:
    step = run_refund_desk(_scene("Refund order 1001", found))

    assert "could not find order 1001" in step["text"]
    assert "calls" not in step


def test_an_order_that_was_paid_back_is_not_paid_again() -> None:
    step = run_refund_desk(_scene("Refund order 1001", _found({**ORDER, "returned_cents": 12_900})))

    assert "in full already" in step["text"]
    assert "calls" not in step


@pytest.mark.parametrize(
    "scene", [_scene("Hello"), _scene("Refund order 1001", tools=frozenset({"pay"}))]
)
def test_anything_else_is_answered_with_what_can_be_asked(scene: Scene) -> None:
    assert "scripted model" in run_refund_desk(scene)["text"]
