"""JSON as it leaves: ASCII, so that text which no encoding allows still gets out as it came in."""

from typing import Any

from starlette.responses import Response

from app.domain.canonical import printed


class Json(Response):
    media_type = "application/json"

    def render(self, content: Any) -> bytes:  # noqa: ANN401 - as in the base class
        return printed(content).encode() + b"\n"


class ProblemDocument(Json):
    media_type = "application/problem+json"
