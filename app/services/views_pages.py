"""Pages with keyset cursors. A cursor holds for one list under one set of filters."""

import base64
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from app.domain.canonical import canonical_json, digest
from app.errors import FieldError, Invalid
from app.services.views_shapes import Json, moment

T = TypeVar("T")
Position = tuple[Any, ...]

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,200}")


@dataclass(frozen=True)
class Listing:
    """What a client asks of a list: `name` and `filters` bind the cursor, `after` is one.

    `parameter`: what the client calls it.
    """

    name: str
    limit: int
    after: str | None = None
    filters: Mapping[str, Any] = field(default_factory=dict)
    parameter: str = "after"

    def start(self, *parts: Callable[[object], object]) -> Position | None:
        """The position behind which the page begins, each of its parts read by its own reader."""
        if self.after is None:
            return None
        try:
            scope, *position = json.loads(base64.b64decode(self.after, b"-_", validate=True))
            if scope != self._scope() or len(position) != len(parts):
                raise ValueError("of another list")
            return tuple(read(part) for read, part in zip(parts, position, strict=True))
        except (ValueError, TypeError, RecursionError):
            raise _not_a_cursor(self.parameter) from None

    def page(
        self, found: Sequence[T], shape: Callable[[T], Json], position: Callable[[T], Position]
    ) -> Json:
        """`found` may hold one item more than the limit: the sign that there is a next page."""
        shown = found[: self.limit]
        more = len(found) > self.limit
        return {
            "data": [shape(item) for item in shown],
            "next": self.cursor(position(shown[-1])) if more else None,
        }

    def cursor(self, position: Position) -> str:
        """`after` of the page that begins behind the position."""
        parts = [moment(part) if isinstance(part, datetime) else part for part in position]
        text = canonical_json([self._scope(), *parts])
        return base64.urlsafe_b64encode(text.encode()).decode()

    def _scope(self) -> str:
        filters = {
            name: moment(value) if isinstance(value, datetime) else value
            for name, value in self.filters.items()
        }
        return digest([self.name, filters])[:12]


def number(part: object) -> int:
    if not isinstance(part, int) or isinstance(part, bool) or not 0 <= part < 2**63:
        raise ValueError("not a number")
    return part


def name(part: object) -> str:
    if not isinstance(part, str) or not _NAME.fullmatch(part):
        raise ValueError("not a name")
    return part


def instant(part: object) -> datetime:
    if not isinstance(part, str):
        raise TypeError("not a timestamp")
    found = datetime.fromisoformat(part)
    if found.tzinfo is None:
        raise ValueError("without a zone")
    return found


def _not_a_cursor(parameter: str) -> Invalid:
    message = "is no cursor of this list with these filters; start again without it"
    return Invalid(f"`{parameter}` {message}.", errors=[FieldError(parameter, message)])
