from typing import Any

import pytest

from app.domain.rules import Conditions, fits

ARGUMENTS: dict[str, Any] = {
    "amount": 10,
    "share": 0.5,
    "note": "ok",
    "urgent": True,
    "none": None,
    "lines": [1, {"ok": True}],
    "digits": "5",
    "huge": 10**400,
    "endless": float("inf"),
    "nothing": float("nan"),
}


@pytest.mark.parametrize(
    "conditions",
    [
        {},
        {"amount": {"max": 10}},
        {"amount": {"min": 10.0, "max": 11}, "note": {"in": ["no", "ok"]}},
        {"share": {"max": 1}},
        {"amount": {"equals": 10.0}},
        {"none": {"equals": None}},
        {"urgent": {"equals": True}},
        {"lines": {"equals": [1.0, {"ok": True}]}},
        {"lines": {"in": [[], [1, {"ok": True}]]}},
        {"amount": {}},
        {"huge": {"min": 1}},
    ],
)
def test_a_rule_covers_what_keeps_within_all_its_bounds(conditions: Conditions) -> None:
    assert fits(conditions, ARGUMENTS)


@pytest.mark.parametrize(
    "conditions",
    [
        {"amount": {"max": 9.99}},
        {"amount": {"min": 10.01}},
        {"amount": {"max": 10}, "note": {"equals": "no"}},
        {"amount": {"max": 10, "min": 11}},
        {"missing": {"equals": None}},
        {"missing": {"max": 10}},
        {"note": {"max": 10}},
        {"urgent": {"max": 10}},
        {"none": {"min": 0}},
        {"urgent": {"equals": 1}},
        {"amount": {"in": ["10", True]}},
        {"lines": {"equals": [True, {"ok": True}]}},
        {"lines": {"equals": [1, {"ok": 1}]}},
        {"lines": {"equals": [1]}},
        {"lines": {"equals": [1, {"ok": True, "more": 1}]}},
        {"amount": {"below": 100}},
        {"digits": {"max": 10}},
        {"digits": {"equals": 5}},
        {"huge": {"max": 1.5}},
        {"endless": {"max": 10**30}},
        {"nothing": {"max": 10}},
        {"nothing": {"min": 0}},
        {"amount": {"in": []}},
        {"lines": {"equals": {"0": 1}}},
        {"lines": {"max": 10}},
    ],
)
def test_a_rule_covers_nothing_else(conditions: Conditions) -> None:
    assert not fits(conditions, ARGUMENTS)
