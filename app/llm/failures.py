"""Which failures of a model call are worth another try, and how long to wait before it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Literal

Verdict = Literal["retry", "fatal"]

_RETRIED_STATUSES = frozenset({408, 409, 429})
_FATAL_TYPES = frozenset(
    {
        "authentication_error",
        "billing_error",
        "invalid_request_error",
        "not_found_error",
        "permission_error",
        "request_too_large",
    }
)
# A gateway that gave up waiting cannot say what the model did meanwhile.
_GATEWAY_TIMEOUTS = frozenset({408, 504, 524})


def judge_status(status: int) -> Verdict:
    return "retry" if status in _RETRIED_STATUSES or status >= 500 else "fatal"


def judge_type(type_: str) -> Verdict:
    """For an error in mid-stream, where the status said 200. An unknown type is retried."""
    return "fatal" if type_ in _FATAL_TYPES else "retry"


def is_maybe_paid(status: int) -> bool:
    return status in _GATEWAY_TIMEOUTS


def read_retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait; a date is measured against the server's own clock (its `Date`)."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("retry-after")
    seconds = _number(value)
    return seconds if seconds is not None else _seconds_until(value, headers.get("date"))


def _number(value: str | None) -> float | None:
    try:
        number = float(value or "")
    except ValueError:
        return None
    return max(number, 0.0) if math.isfinite(number) else None


def _seconds_until(then: str | None, now: str | None) -> float | None:
    try:
        span = parsedate_to_datetime(then or "") - parsedate_to_datetime(now or "")
    except (TypeError, ValueError):
        return None
    return max(span.total_seconds(), 0.0)
