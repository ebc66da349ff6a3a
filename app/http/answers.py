"""JSON as it leaves: ASCII, so that text which no encoding allows still gets out as it came in."""

import math
from typing import Any

from starlette.responses import Response

from app.domain.canonical import encode


class Json(Response):
    media_type = "application/json"

    def render(self, content: Any) -> bytes:  # noqa: ANN401 - as in the base class
        try:
            return encode(content).encode()
        except ValueError:
            return encode(_finite(content)).encode()


class ProblemDocument(Json):
    media_type = "application/problem+json"


def _finite(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """What a model writes may hold a number that only JSON's grammar can carry: 1e999."""
    match value:
        case dict():
            return {name: _finite(item) for name, item in value.items()}
        case list():
            return [_finite(item) for item in value]
        case float() if not math.isfinite(value):
            return None
        case _:
            return value
