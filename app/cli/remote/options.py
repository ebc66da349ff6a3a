"""Options that many commands share, and the forms in which values are given."""

import json
import sys
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from app.domain.limits import InvalidLimit
from app.domain.limits import Limits as KnownLimits

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead.")]
Timeout = Annotated[
    float | None, typer.Option(min=0, metavar="SECONDS", help="Stop waiting after so long.")
]
Limits = Annotated[
    list[str] | None,
    typer.Option(
        "--limit",
        metavar="NAME=VALUE",
        help="turns, tokens, cost_usd, seconds or calls; may be repeated.",
    ),
]
Reason = Annotated[str | None, typer.Option(help="Why; kept with the decision.")]
Behalf = Annotated[str | None, typer.Option(help="Who has decided, if not the holder of the key.")]


def read_text(text: str, name: str) -> str:
    """`-` stands for standard input."""
    found = _read(text)
    if not found.strip():
        raise typer.BadParameter("must not be empty", param_hint=name)
    return found


def _read(text: str) -> str:
    return sys.stdin.read() if text == "-" else text


def read_json(text: str, name: str) -> Any:  # noqa: ANN401 - any JSON
    try:
        return json.loads(_read(text))
    except (ValueError, RecursionError) as error:
        raise typer.BadParameter(f"is not JSON: {error}", param_hint=name) from None


def read_pairs(given: list[str] | None, name: str) -> dict[str, str] | None:
    if not given:
        return None
    pairs = {}
    for each in given:
        key, equals, value = each.partition("=")
        if not key or not equals:
            raise typer.BadParameter(f"must be NAME=VALUE, not {each!r}", param_hint=name)
        pairs[key] = value
    return pairs


def read_limits(given: list[str] | None) -> dict[str, Any] | None:
    """Numbers are numbers, and money stays the decimal that it is; `none` lifts a limit."""
    pairs = read_pairs(given, "--limit")
    if pairs is None:
        return None
    limits = {name: _limit(name, value) for name, value in pairs.items()}
    try:
        KnownLimits.from_json(limits)
    except InvalidLimit as error:
        message = f"{error.field}: {error.message}"
        raise typer.BadParameter(message, param_hint="--limit") from None
    return limits


def _limit(name: str, value: str) -> Any:  # noqa: ANN401 - what is no number is refused with its name
    if value == "none":
        return None
    if name == "cost_usd":
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def read_moment(text: str | None, name: str) -> datetime | None:
    if text is None:
        return None
    try:
        # Without a zone it is the time of the person's clock.
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        raise typer.BadParameter(
            "must be a time such as 2030-01-31T12:00:00Z", param_hint=name
        ) from None
