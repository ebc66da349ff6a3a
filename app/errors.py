"""Every error Perdure raises on purpose, in one tree.

PerdureError                      code (slug of the problem type), status, title
├── NotFound                      404 not-found
├── Conflict                      409
│   ├── AlreadyResolved               already-resolved
│   ├── StaleArguments                stale-arguments
│   ├── RunEnded                      run-ended
│   ├── NotResumable                  not-resumable
│   ├── TargetBusy                    target-busy
│   └── MessageDelivered              message-delivered
├── WaitClosed                    410 wait-closed
├── Invalid                       422 invalid-request, names the fields
├── AgentNotFound                 422 agent-not-found
├── IdempotencyKeyReused          422 idempotency-key-reused
├── TooLarge                      413 too-large
├── UnsupportedMediaType          415 unsupported-media-type
├── MethodNotAllowed              405 method-not-allowed
├── Unauthorized                  401 unauthorized
├── Forbidden                     403 forbidden
├── RateLimited                   429 rate-limited
├── QueueFull                     429 queue-full, says when to come back
├── DatabaseUnavailable           503 database-unavailable, says when to come back
└── Internal                      500 internal
ConfigurationError                a process that must not start; never an answer over HTTP
Fenced (BaseException)            a write refused because another execution owns the run
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar


class PerdureError(Exception):
    """An error a client can act on: `detail` says what to do next, `extra` adds problem members."""

    code: ClassVar[str]
    status: ClassVar[int]
    title: ClassVar[str]

    def __init__(
        self, detail: str, *, hint: str | None = None, extra: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.hint = hint
        self.extra: dict[str, Any] = dict(extra or {})


class NotFound(PerdureError):
    code, status, title = "not-found", 404, "Not found"


class Conflict(PerdureError):
    """The request is well formed, but the thing it names has moved on."""

    status = 409


class AlreadyResolved(Conflict):
    code, title = "already-resolved", "The wait has another resolution"


class StaleArguments(Conflict):
    code, title = "stale-arguments", "These are not the arguments that were shown"


class RunEnded(Conflict):
    code, title = "run-ended", "The run has ended"


class NotResumable(Conflict):
    code, title = "not-resumable", "The run cannot be resumed"


class TargetBusy(Conflict):
    code, title = "target-busy", "Another run is active"


class MessageDelivered(Conflict):
    code, title = "message-delivered", "The message has reached the model"


class WaitClosed(PerdureError):
    code, status, title = "wait-closed", 410, "The wait is closed"


@dataclass(frozen=True, slots=True)
class FieldError:
    """One thing wrong with a request, at a dotted path into it."""

    field: str
    message: str


class Invalid(PerdureError):
    code, status, title = "invalid-request", 422, "The request is invalid"

    def __init__(
        self, detail: str, *, errors: Sequence[FieldError] = (), hint: str | None = None
    ) -> None:
        super().__init__(detail, hint=hint)
        self.errors = tuple(errors)


class AgentNotFound(PerdureError):
    code, status, title = "agent-not-found", 422, "No such agent"


class IdempotencyKeyReused(PerdureError):
    code, status, title = "idempotency-key-reused", 422, "The key was used for another request"


class TooLarge(PerdureError):
    code, status, title = "too-large", 413, "The request is too large"


class UnsupportedMediaType(PerdureError):
    code, status, title = "unsupported-media-type", 415, "The content type is not supported"


class MethodNotAllowed(PerdureError):
    code, status, title = "method-not-allowed", 405, "The method is not allowed here"


class Unauthorized(PerdureError):
    code, status, title = "unauthorized", 401, "A valid API key is needed"


class Forbidden(PerdureError):
    code, status, title = "forbidden", 403, "The API key lacks the right to do this"


class RateLimited(PerdureError):
    code, status, title = "rate-limited", 429, "Too many requests"


class QueueFull(PerdureError):
    """`retry_after` is in whole seconds, as the header of that name."""

    code, status, title = "queue-full", 429, "The queue is full"

    def __init__(self, detail: str, *, retry_after: int = 5) -> None:
        super().__init__(detail)
        self.retry_after = retry_after


class DatabaseUnavailable(PerdureError):
    """`retry_after` is in whole seconds, as the header of that name."""

    code, status, title = "database-unavailable", 503, "The database cannot be reached"

    def __init__(self, detail: str, *, retry_after: int = 1) -> None:
        super().__init__(detail)
        self.retry_after = retry_after


class Internal(PerdureError):
    code, status, title = "internal", 500, "Something went wrong on our side"


class ConfigurationError(Exception):
    """Refuses a start; `problems` are shown all at once, one to a line."""

    def __init__(self, summary: str, problems: Sequence[str] = (), *, hint: str = "") -> None:
        lines = [summary, *(f"  {problem}" for problem in problems), *([hint] if hint else [])]
        super().__init__("\n".join(lines))
        self.summary = summary
        self.problems = tuple(problems)


class Fenced(BaseException):
    """A write is refused because another execution owns the run.

    A BaseException, so that steps let it pass and DBOS journals neither the step nor the workflow.
    """
