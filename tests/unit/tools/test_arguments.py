"""From the model's arguments to stored JSON to the function's values."""

import contextvars
import threading
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from app import ToolContext, tool
from app.domain.canonical import encode
from app.tools.errors import InvalidArguments
from tests.unit.tools.contexts import make_context
from tests.unit.tools.postponed import note


class Line(BaseModel):
    sku: str = Field(alias="stockKeepingUnit")
    price: Decimal


class Colour(Enum):
    RED = "red"


@dataclass
class Address:
    city: str


@tool
async def order(
    ctx: ToolContext,
    lines: list[Line],
    day: date,
    colour: Colour,
    address: Address,
    pair: tuple[int, str],
    wait: timedelta = timedelta(hours=1),
    kind: Literal["a", "b"] = "a",
    extra: dict[str, Any] | None = None,
) -> list[object]:
    """Take values of many types."""
    return [lines, day, colour, address, pair, wait, kind, extra]


GIVEN = {
    "lines": [{"stockKeepingUnit": "x", "price": "1.10"}],
    "day": "2026-02-01",
    "colour": "red",
    "address": {"city": "Oslo"},
    "pair": [1, "x"],
}


@tool
def add(a: int, b: int = 2) -> int:
    return a + b


def refusal(arguments: Any) -> str:  # noqa: ANN401
    with pytest.raises(InvalidArguments) as refused:
        add.parse(arguments)
    return str(refused.value)


def test_defaults_are_filled_in() -> None:
    assert add.parse({"a": 1}) == {"a": 1, "b": 2}


def test_parsed_arguments_are_plain_json() -> None:
    parsed = order.parse(GIVEN)
    encode(parsed)
    assert parsed == GIVEN | {"wait": "PT1H", "kind": "a", "extra": None}


def test_parsing_again_changes_nothing() -> None:
    assert order.parse(order.parse(GIVEN)) == order.parse(GIVEN)


async def test_stored_arguments_become_values_again() -> None:
    assert await order.invoke(make_context(), order.parse(GIVEN)) == [
        [Line(stockKeepingUnit="x", price=Decimal("1.10"))],
        date(2026, 2, 1),
        Colour.RED,
        Address("Oslo"),
        (1, "x"),
        timedelta(hours=1),
        "a",
        None,
    ]


def test_an_unknown_field_is_refused() -> None:
    assert "c: Extra inputs are not permitted" in refusal({"a": 1, "c": 2})
    assert "parameter_0: Extra inputs are not permitted" in refusal({"a": 1, "parameter_0": 2})


def test_the_refusal_names_tool_field_and_reason() -> None:
    assert refusal({"a": "x"}).startswith("add: a: Input should be a valid integer")
    assert refusal({}) == "add: a: Field required"


@pytest.mark.parametrize("arguments", [[], "a", None, 1])
def test_arguments_must_be_an_object(arguments: object) -> None:
    assert refusal(arguments) == "add: the arguments must be an object"


def test_the_refused_input_is_not_sent_back() -> None:
    long = "secret " * 10_000
    text = refusal({"a": long, long: 1, **{f"field {n}": n for n in range(1000)}})
    assert len(text) < 2000
    assert "secret " * 10 not in text
    assert "more" in text


@tool
def keep(value: Any = None) -> object:  # noqa: ANN401
    return value


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def test_arguments_nested_without_end_are_refused() -> None:
    with pytest.raises(InvalidArguments):
        keep.parse({"value": nested(50_000)})


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_numbers_that_json_does_not_have_never_reach_the_row(number: float) -> None:
    assert encode(keep.parse({"value": [number]})) == '{"value":[null]}'

    @tool
    def scale(factor: float) -> float:
        return factor

    with pytest.raises(InvalidArguments, match="factor: Input should be a finite number"):
        scale.parse({"factor": number})


@pytest.mark.parametrize("text", ["a\x00b", "\ud800", "\\u0000", "😀"])
async def test_odd_text_reaches_the_tool_as_it_came(text: str) -> None:
    assert await keep.invoke(make_context(), keep.parse({"value": text})) == text


async def test_arguments_that_no_longer_fit_are_refused_before_the_function_runs() -> None:
    ran = []

    @tool
    def pay(cents: int) -> None:
        ran.append(cents)

    with pytest.raises(InvalidArguments, match="amount: Extra inputs"):
        await pay.invoke(make_context(), {"amount": 5, "cents": 1})
    assert ran == []


async def test_a_sync_tool_runs_in_another_thread_with_the_caller_s_context() -> None:
    fence = contextvars.ContextVar[int]("fence")
    fence.set(7)

    @tool
    def where() -> tuple[int, int]:
        return threading.get_ident(), fence.get()

    seen = await where.invoke(make_context(), {})
    assert isinstance(seen, tuple)
    assert seen[0] != threading.get_ident()
    assert seen[1] == 7


async def test_an_async_tool_runs_in_the_loop_s_thread() -> None:
    @tool
    async def where() -> int:
        return threading.get_ident()

    assert await where.invoke(make_context(), {}) == threading.get_ident()


async def test_postponed_annotations_work() -> None:
    assert note.takes_context
    assert list(note.input_schema["properties"]) == ["text", "tags"]
    assert await note.invoke(make_context(), note.parse({"text": "abc", "tags": ["x"]})) == 4
