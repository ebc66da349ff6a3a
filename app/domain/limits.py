"""What a run may use before it is stopped."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from decimal import Decimal, InvalidOperation
from typing import Any, Self


class InvalidLimit(ValueError):
    """A limit that cannot be kept; `field` names it."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"limits.{field}: {message}")
        self.field = field
        self.message = message


@dataclass(frozen=True, init=False)
class Limits:
    """`tokens` are input and output, `seconds` active time, `calls` tool calls; None: no limit."""

    turns: int
    tokens: int | None
    cost_usd: Decimal | None
    seconds: float | None
    calls: int | None

    def __init__(
        self,
        turns: int = 50,
        tokens: int | None = None,
        cost_usd: Decimal | str | int | None = None,
        seconds: float | None = None,
        calls: int | None = None,
    ) -> None:
        checked = {
            "turns": _count("turns", turns),
            "tokens": None if tokens is None else _count("tokens", tokens),
            "cost_usd": None if cost_usd is None else _money("cost_usd", cost_usd),
            "seconds": None if seconds is None else _seconds("seconds", seconds),
            "calls": None if calls is None else _count("calls", calls),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    def to_json(self) -> dict[str, Any]:
        cost = None if self.cost_usd is None else f"{self.cost_usd:f}"
        return asdict(self) | {"cost_usd": cost}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        known = {field.name for field in fields(cls)}
        for name in value:
            if name not in known:
                raise InvalidLimit(name, f"unknown limit; there are {', '.join(sorted(known))}")
        return cls(**value)

    def merged(self, over: "Limits | Mapping[str, Any]") -> "Limits":
        """These limits with the ones that `over` sets; a mapping's None lifts a limit."""
        if isinstance(over, Limits):
            over = {name: value for name, value in over.to_json().items() if value is not None}
        return Limits.from_json(self.to_json() | dict(over))


def _count(field: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InvalidLimit(field, "must be a whole number of at least 1")
    return value


def _seconds(field: str, value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise InvalidLimit(field, "must be a number of seconds")
    if not 0 < value < float("inf"):
        raise InvalidLimit(field, "must be more than 0")
    return value


def _money(field: str, value: object) -> Decimal:
    if isinstance(value, bool):
        raise InvalidLimit(field, "must be a decimal string such as '1.50'")
    try:
        amount = Decimal(str(value))
    except InvalidOperation:
        raise InvalidLimit(field, "must be a decimal string such as '1.50'") from None
    if not amount.is_finite() or amount <= 0:
        raise InvalidLimit(field, "must be more than 0")
    return amount
