"""Why the server does not answer a request, in the envelope of the real API."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.responses import JSONResponse, Response

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}


class Refused(Exception):
    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.message = message
        self.status = status


def name_type(status: int) -> str:
    return _TYPES.get(status, "invalid_request_error" if status < 500 else "api_error")


def build_error(type_: str, message: str, request_id: str) -> dict[str, object]:
    error = {"type": type_, "message": message}
    return {"type": "error", "error": error, "request_id": request_id}


def render(
    status: int, message: str, request_id: str, headers: Mapping[str, str] | None = None
) -> Response:
    body = build_error(name_type(status), message, request_id)
    return JSONResponse(body, status, {"request-id": request_id, **(headers or {})})
