"""Small shapes that many answers share."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

Json = dict[str, Any]

# What our own rows need and no client does.
INTERNAL = frozenset({"fence"})


def moment(value: datetime | None) -> str | None:
    """RFC 3339 in UTC, to the microsecond."""
    if value is None:
        return None
    return value.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def moment_of_json(value: str | None) -> str | None:
    """The same for a timestamp that Postgres wrote into JSON."""
    return None if value is None else moment(datetime.fromisoformat(value))


def history(attempts: Iterable[Mapping[str, Any]]) -> list[Json]:
    return [
        {name: value for name, value in attempt.items() if name not in INTERNAL}
        for attempt in attempts
    ]
