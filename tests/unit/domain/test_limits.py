"""Limits: what may be set, how they travel, how they are raised."""

from decimal import Decimal
from typing import Any

import pytest

from app import Limits
from app.domain.limits import InvalidLimit


def test_only_turns_are_limited_unless_told_otherwise() -> None:
    assert Limits().to_json() == {
        "turns": 50,
        "tokens": None,
        "cost_usd": None,
        "seconds": None,
        "calls": None,
    }


@pytest.mark.parametrize("cost", ["0.10", Decimal("0.10"), 0.1])
def test_money_is_a_decimal_string_in_json(cost: Any) -> None:  # noqa: ANN401
    assert Decimal(Limits(cost_usd=cost).to_json()["cost_usd"]) == Decimal("0.1")


def test_money_is_never_written_with_an_exponent() -> None:
    assert Limits(cost_usd="1E+2").to_json()["cost_usd"] == "100"


def test_json_brings_back_equal_limits() -> None:
    limits = Limits(turns=3, tokens=10, cost_usd="1.50", seconds=0.5, calls=2)
    assert Limits.from_json(limits.to_json()) == limits


@pytest.mark.parametrize(
    "wrong",
    [
        {"turns": 0},
        {"turns": None},
        {"turns": True},
        {"turns": 1.5},
        {"tokens": -1},
        {"tokens": "many"},
        {"calls": 0},
        {"seconds": 0},
        {"seconds": float("nan")},
        {"seconds": float("inf")},
        {"seconds": "60"},
        {"cost_usd": "0"},
        {"cost_usd": "-1"},
        {"cost_usd": "NaN"},
        {"cost_usd": "much"},
        {"cost_usd": True},
        {"minutes": 1},
    ],
)
def test_a_wrong_limit_is_refused_by_name(wrong: dict[str, Any]) -> None:
    (field,) = wrong
    with pytest.raises(InvalidLimit, match=f"limits.{field}: ") as refused:
        Limits.from_json(wrong)
    assert refused.value.field == field


def test_merging_sets_what_is_given_and_keeps_the_rest() -> None:
    merged = Limits(turns=5, tokens=100, cost_usd="2").merged({"turns": 9, "cost_usd": "3"})
    assert merged == Limits(turns=9, tokens=100, cost_usd="3")


def test_a_given_null_lifts_a_limit() -> None:
    assert Limits(tokens=100).merged({"tokens": None}) == Limits()


def test_merging_limits_sets_the_ones_they_have() -> None:
    assert Limits(tokens=100, calls=3).merged(Limits(turns=7, calls=4)) == Limits(
        turns=7, tokens=100, calls=4
    )


def test_merging_refuses_an_unknown_limit() -> None:
    with pytest.raises(InvalidLimit, match="unknown limit"):
        Limits().merged({"cost": "1"})
