"""Standing rules: which arguments a permission covers."""

from collections.abc import Mapping
from typing import Any

OPERATORS = ("max", "min", "equals", "in")

# By argument, by operator: {"amount": {"max": 10}}.
Conditions = Mapping[str, Mapping[str, Any]]


def fits(conditions: Conditions, arguments: Mapping[str, Any]) -> bool:
    """Whether all conditions hold; one on an argument that is not there does not."""
    return all(
        name in arguments and _holds(operator, bound, arguments[name])
        for name, bounds in conditions.items()
        for operator, bound in bounds.items()
    )


def _holds(operator: str, bound: Any, value: Any) -> bool:  # noqa: ANN401 - any JSON
    match operator:
        case "max":
            return _is_number(value) and value <= bound
        case "min":
            return _is_number(value) and value >= bound
        case "equals":
            return _same(value, bound)
        case "in":
            return any(_same(value, each) for each in bound)
        case _:
            return False


def _same(one: Any, other: Any) -> bool:  # noqa: ANN401 - any JSON
    """As JSON has it: true is not 1, at any depth."""
    match one, other:
        case dict(), dict():
            return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
        case list(), list():
            return len(one) == len(other) and all(map(_same, one, other))
        case _:
            return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
