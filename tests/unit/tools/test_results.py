"""What a tool returns becomes plain JSON, or it is said why not."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel, ConfigDict

from app import tool
from app.domain.canonical import encode
from app.tools.errors import UnencodableResult


class Receipt(BaseModel):
    number: int
    paid: Decimal = Decimal("0")


@dataclass
class Point:
    x: float
    label: str


class Reading(BaseModel):
    model_config = ConfigDict(ser_json_inf_nan="constants")

    value: float


class Colour(StrEnum):
    RED = "red"


@tool
async def anything() -> None:
    """Return anything."""


@tool(result=Receipt)
async def receipt() -> None:
    """Return a receipt."""


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (None, None),
        ({"a": [1, 2.5, True, None, "x"]}, {"a": [1, 2.5, True, None, "x"]}),
        (Receipt(number=1, paid=Decimal("1.10")), {"number": 1, "paid": "1.10"}),
        ([Point(1.0, "a")], [{"x": 1.0, "label": "a"}]),
        (datetime(2026, 1, 2, 3, 4, tzinfo=UTC), "2026-01-02T03:04:00Z"),
        (timedelta(minutes=1), "PT1M"),
        (Decimal("0.10"), "0.10"),
        (b"\xff\x00", "_wA="),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Path("/a"), "/a"),
        (Colour.RED, "red"),
        ((1, {2}), [1, [2]]),
        ({1: "a", Colour.RED: "b"}, {"1": "a", "red": "b"}),
        ([math.nan, -math.inf, Point(math.inf, "n")], [None, None, {"x": None, "label": "n"}]),
        ({"n\x00": "a\x00b\ud800", "e": "\\u0000"}, {"n\ufffd": "a\ufffdb\ufffd", "e": "\\u0000"}),
        ({"n\ud800": 1}, {"n\ufffd": 1}),
        (Reading(value=math.nan), {"value": None}),
        (Point(1.0, "\ud800\x00"), {"x": 1.0, "label": "\ufffd\ufffd"}),
        (10**30, 10**30),
    ],
)  # fmt: skip
def test_values_become_plain_json(value: object, plain: object) -> None:
    encoded = anything.encode_result(value)
    assert encoded == plain
    encode(encoded)


def endless() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


def deep() -> list[Any]:
    value: list[Any] = []
    for _ in range(50_000):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value", [object(), {"a": [lambda: 1]}, ValueError("x"), endless(), deep()]
)
def test_a_value_without_json_form_is_refused(value: object) -> None:
    with pytest.raises(UnencodableResult, match="has no JSON form"):
        anything.encode_result(value)


def breaking_off() -> Iterator[int]:
    yield 1
    raise SystemExit(3)


@pytest.mark.parametrize("value", [breaking_off(), {"a": breaking_off()}])
def test_a_value_whose_own_code_breaks_is_refused(value: object) -> None:
    with pytest.raises(UnencodableResult):
        anything.encode_result(value)


@pytest.mark.parametrize("value", [Receipt(number=1), {"number": "1"}, {"number": 1, "paid": 0}])
def test_a_result_is_fitted_to_its_model(value: object) -> None:
    assert receipt.encode_result(value) == {"number": 1, "paid": "0"}


@pytest.mark.parametrize("value", [None, {}, {"number": "x"}, "text"])
def test_a_result_that_does_not_fit_its_model_is_refused(value: object) -> None:
    with pytest.raises(UnencodableResult, match="does not fit Receipt: "):
        receipt.encode_result(value)
