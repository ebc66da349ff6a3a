"""Bodies of requests. Strict: nothing is converted, nothing unknown is passed over."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from typing_extensions import TypedDict  # pydantic refuses typing's before Python 3.12

from app.domain.states import OnBusy

_INSTANT = re.compile(
    r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)
# These tie an answer of the model to a call; a person cannot say them.
_AMOUNT = re.compile(r"[0-9]{1,20}(\.[0-9]{1,20})?")
_NOT_SAID = ("tool_use", "tool_result", "thinking")


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def to_instant(value: object) -> object:
    if isinstance(value, datetime) or value is None:
        return value
    if not isinstance(value, str) or not _INSTANT.fullmatch(value):
        raise ValueError("must be an RFC 3339 timestamp with a zone, such as 2030-01-31T12:00:00Z")
    try:
        return datetime.fromisoformat(value.upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError("is no date of the calendar") from None


def _to_amount(value: object) -> object:
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number and not (isinstance(value, str) and _AMOUNT.fullmatch(value)):
        raise ValueError("must be a decimal string such as '1.50', or a number")
    amount = Decimal(str(value))
    if not amount.is_finite() or not 0 < amount < 10**8 or amount != round(amount, 6):
        raise ValueError("must be more than 0, less than 100000000, with at most 6 decimals")
    return f"{amount:f}"


def _to_input(value: object) -> object:
    if isinstance(value, str):
        if not value.strip():
            raise ValueError("must not be empty")
    elif isinstance(value, list) and value:
        for place, block in enumerate(value):
            _check_block(place, block)
    else:
        raise ValueError("must be text, or a list of content blocks that is not empty")
    return value


def _check_block(place: int, block: object) -> None:
    kind = block.get("type") if isinstance(block, Mapping) else None
    if not isinstance(block, Mapping) or not isinstance(kind, str) or not kind:
        raise ValueError(f"block {place} must be an object with a `type`, such as 'text'")
    if kind.endswith(_NOT_SAID):
        raise ValueError(f"block {place} has the type {kind!r}, which only the service may write")
    text = block.get("text")
    if kind == "text" and not (isinstance(text, str) and text.strip()):
        raise ValueError(f"block {place} must have a `text` that is not empty")


def _to_said(value: object) -> object:
    if isinstance(value, str) and not value.strip():
        raise ValueError("must not be empty")
    return value


def _schema(**schema: Any) -> WithJsonSchema:
    return WithJsonSchema(schema)


Said = Annotated[str, BeforeValidator(_to_said)]
Reason = Annotated[str, Field(max_length=2000)]
Name = Annotated[str, Field(min_length=1, max_length=200)]
Instant = Annotated[
    datetime, BeforeValidator(to_instant), _schema(type="string", format="date-time")
]
Amount = Annotated[
    str | None,
    BeforeValidator(_to_amount),
    _schema(anyOf=[{"type": "string"}, {"type": "number"}, {"type": "null"}]),
]
Input = Annotated[
    Any,
    BeforeValidator(_to_input),
    _schema(
        anyOf=[
            {"type": "string", "minLength": 1},
            {
                "type": "array",
                "minItems": 1,
                "items": {
                    "type": "object",
                    "properties": {"type": {"type": "string"}},
                    "required": ["type"],
                },
            },
        ]
    ),
]


class LimitsBody(TypedDict, total=False):
    """Over the agent's own limits; null lifts one."""

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)  # type: ignore[misc]

    turns: Annotated[int, Field(ge=1, le=1_000_000)]
    tokens: Annotated[int, Field(ge=1, le=10**12)] | None
    cost_usd: Amount
    seconds: Annotated[float, Field(gt=0, le=10**9, allow_inf_nan=False)] | None
    calls: Annotated[int, Field(ge=1, le=1_000_000)] | None


class CallbackBody(Strict):
    url: Annotated[str, Field(min_length=1, max_length=2000)]


class RunBody(Strict):
    agent: Name
    input: Input
    session: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")] | None = None
    target: Name | None = None
    on_busy: OnBusy = "queue"
    limits: LimitsBody = {}
    # As DBOS has it: the lower number goes first, and 0, the default, before all others.
    priority: Annotated[int, Field(ge=0, le=1000)] = 0
    queue_key: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:@/-]{1,128}$")] | None = None
    deadline: Instant | None = None
    callback: CallbackBody | None = None
    metadata: Annotated[
        dict[
            Annotated[str, Field(min_length=1, max_length=64)],
            Annotated[str, Field(max_length=512)],
        ],
        Field(max_length=16),
    ] = {}


class MessageBody(Strict):
    text: Said


class CancelBody(Strict):
    reason: Reason | None = None


class ResumeBody(Strict):
    limits: LimitsBody = {}


class ForkBody(Strict):
    turn: Annotated[int, Field(ge=1, le=1_000_000)]
    input: Input | None = None
