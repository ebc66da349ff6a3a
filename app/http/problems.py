"""The one place where errors become problem documents (RFC 9457)."""

import logging
from collections.abc import Sequence
from typing import Any

from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from pydantic_core import ErrorDetails
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match

from app import errors
from app.errors import FieldError, Invalid, PerdureError
from app.http.answers import ProblemDocument
from app.store.db_errors import is_unavailable

RETRY_SECONDS = 2
# Enough to mend a request by; the rest would only make the answer long.
MOST_ERRORS = 20
LONGEST_FIELD = 200

log = logging.getLogger(__name__)


async def answer(request: Request, error: Exception) -> Response:
    problem = problem_of(error)
    headers = _headers(problem)
    if isinstance(problem, errors.MethodNotAllowed):
        headers["Allow"] = _allowed(request)
        if request.method == "OPTIONS":
            return Response(status_code=204, headers=headers)
    return ProblemDocument(_members(problem), status_code=problem.status, headers=headers)


def problem_of(error: Exception) -> PerdureError:
    match error:
        case PerdureError():
            return error
        case RequestValidationError():
            return _of_validation(error.errors())
        case HTTPException(status_code=404):
            return errors.NotFound("There is nothing at this path; /openapi.json lists them all.")
        case HTTPException(status_code=405):
            return errors.MethodNotAllowed("Use a method that the `Allow` header names.")
    if is_unavailable(error):
        log.warning("the database is unavailable: %s", _first_line(error))
        return errors.DatabaseUnavailable(
            "The database gave no answer in time, so it is not known whether anything was stored. "
            "Send the request again, with the same Idempotency-Key if it had one.",
            retry_after=RETRY_SECONDS,
        )
    log.error("a request failed", exc_info=error)
    return errors.Internal(
        "The request failed for a reason that is not yours; the log of the service tells it under "
        "the X-Request-Id of this answer."
    )


def invalid(error: ValidationError) -> Invalid:
    """For a model that a handler validates itself."""
    details = error.errors(include_url=False, include_input=False)
    return _of_fields([_field_error(detail["loc"], detail) for detail in details])


def refuse(field: str, message: str) -> Invalid:
    return _of_fields([FieldError(field, message)])


def _of_validation(details: Sequence[Any]) -> PerdureError:
    if any(detail["loc"][0] == "path" for detail in details):
        return errors.NotFound("There is nothing with this id.")
    return _of_fields([_field_error(detail["loc"][1:], detail) for detail in details])


def _of_fields(found: Sequence[FieldError]) -> Invalid:
    first = found[0]
    return Invalid(f"Correct `{first.field}`: {first.message}.", errors=found[:MOST_ERRORS])


def _field_error(place: Sequence[int | str], detail: ErrorDetails) -> FieldError:
    parts = [str(part) for part in place if part != "[key]"]
    return FieldError(".".join(parts)[:LONGEST_FIELD] or "body", _message(detail))


def _message(detail: ErrorDetails) -> str:
    match detail["type"]:
        case "extra_forbidden":
            return "is not known here"
        case "missing":
            return "must be given"
        case _:
            text = detail["msg"].removeprefix("Value error, ")
            return text[:1].lower() + text[1:]


def _members(problem: PerdureError) -> dict[str, Any]:
    members: dict[str, Any] = {
        "type": f"/problems/{problem.code}",
        "title": problem.title,
        "status": problem.status,
        "detail": problem.detail,
    }
    if problem.hint is not None:
        members["hint"] = problem.hint
    if isinstance(problem, Invalid):
        members["errors"] = [
            {"field": each.field, "message": each.message} for each in problem.errors
        ]
    return members | problem.extra


def _headers(problem: PerdureError) -> dict[str, str]:
    match problem:
        case errors.QueueFull() | errors.DatabaseUnavailable():
            return {"Retry-After": str(problem.retry_after)}
        case errors.Unauthorized():
            return {"WWW-Authenticate": "Bearer"}
        case _:
            return {}


def _allowed(request: Request) -> str:
    """All methods of the path: the router itself names only those of the first route that fits."""
    found = {"HEAD", "OPTIONS"}
    for route in request.app.routes:
        match, _ = route.matches(request.scope)
        if match is Match.PARTIAL:
            found |= route.methods
    return ", ".join(sorted(found if "GET" in found else found - {"HEAD"}))


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
