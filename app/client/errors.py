"""What a client can be told, in one tree.

ClientError
├── Unusable                      an argument that no request can be made of; also a ValueError
├── Unreachable                   no answer came within the patience of the client
│   └── Uncertain                 it may have been done all the same; the client did not repeat it
├── StillRunning                  the time given to `run.wait` is over; also a TimeoutError
└── Problem                       the service answered with a problem (RFC 9457)
    ├── NotFound                  404 not-found
    ├── Conflict                  409
    │   ├── AlreadyResolved           already-resolved; `wait` is the wait as it was resolved
    │   ├── StaleArguments            stale-arguments
    │   ├── RunEnded                  run-ended
    │   ├── NotResumable              not-resumable
    │   ├── TargetBusy                target-busy
    │   └── MessageDelivered          message-delivered
    ├── WaitClosed                410 wait-closed
    ├── Invalid                   422 invalid-request; `errors` names the fields
    ├── AgentNotFound             422 agent-not-found
    ├── IdempotencyKeyReused      422 idempotency-key-reused
    ├── TooLarge                  413 too-large
    ├── UnsupportedMediaType      415 unsupported-media-type
    ├── MethodNotAllowed          405 method-not-allowed
    ├── Unauthorized              401 unauthorized
    ├── Forbidden                 403 forbidden
    ├── RateLimited               429 rate-limited
    ├── QueueFull                 429 queue-full
    ├── DatabaseUnavailable       503 database-unavailable
    └── Internal                  500 internal
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from app.client.models import RunData


class ClientError(Exception):
    """Everything that the client raises on purpose."""


class Unusable(ClientError, ValueError):
    """Nothing was sent."""


class Unreachable(ClientError):
    """`__cause__` is the last failure of the transport, or of a proxy the `Problem`."""


class Uncertain(Unreachable):
    """No answer says whether it was done. Look before you send it again."""


class StillRunning(ClientError, TimeoutError):
    """`run` is the run as it was last seen; it goes on."""

    def __init__(self, run: "RunData") -> None:
        super().__init__(f"Run {run.id} is still {run.status}.")
        self.run = run


@dataclass(frozen=True, slots=True)
class FieldError:
    """One thing wrong with a request, at a dotted path into it."""

    field: str
    message: str


class Problem(ClientError):
    """`raw` is the whole problem document; `detail` says what to do next."""

    code: ClassVar[str] = ""

    def __init__(self, status: int, raw: Mapping[str, Any], headers: Mapping[str, str]) -> None:
        self.status = status
        self.raw = raw
        self.type = _text(raw, "type") or "about:blank"
        self.title = _text(raw, "title") or ""
        self.detail = _text(raw, "detail") or f"The service answered with {status}."
        self.hint = _text(raw, "hint")
        self.errors = tuple(_field_errors(raw))
        self.request_id = headers.get("x-request-id")
        self.retry_after = headers.get("retry-after")
        super().__init__(self.detail)


def _text(raw: Mapping[str, Any], name: str) -> str | None:
    """A gateway in between may answer with a document of its own, of any form."""
    found = raw.get(name)
    return found if isinstance(found, str) else None


def _field_errors(raw: Mapping[str, Any]) -> Iterator[FieldError]:
    found = raw.get("errors")
    for each in found if isinstance(found, list) else ():
        if isinstance(each, dict) and each.keys() >= {"field", "message"}:
            yield FieldError(str(each["field"]), str(each["message"]))


class NotFound(Problem):
    code = "not-found"


class Conflict(Problem):
    """What the request names has moved on."""


class AlreadyResolved(Conflict):
    code = "already-resolved"

    @property
    def wait(self) -> Mapping[str, Any] | None:
        return self.raw.get("wait")


class StaleArguments(Conflict):
    code = "stale-arguments"


class RunEnded(Conflict):
    code = "run-ended"


class NotResumable(Conflict):
    code = "not-resumable"


class TargetBusy(Conflict):
    code = "target-busy"


class MessageDelivered(Conflict):
    code = "message-delivered"


class WaitClosed(Problem):
    code = "wait-closed"


class Invalid(Problem):
    code = "invalid-request"


class AgentNotFound(Problem):
    code = "agent-not-found"


class IdempotencyKeyReused(Problem):
    code = "idempotency-key-reused"


class TooLarge(Problem):
    code = "too-large"


class UnsupportedMediaType(Problem):
    code = "unsupported-media-type"


class MethodNotAllowed(Problem):
    code = "method-not-allowed"


class Unauthorized(Problem):
    code = "unauthorized"


class Forbidden(Problem):
    code = "forbidden"


class RateLimited(Problem):
    code = "rate-limited"


class QueueFull(Problem):
    code = "queue-full"


class DatabaseUnavailable(Problem):
    code = "database-unavailable"


class Internal(Problem):
    code = "internal"


PROBLEMS: Mapping[str, type[Problem]] = {
    found.code: found
    for found in (*Problem.__subclasses__(), *Conflict.__subclasses__())
    if found.code
}
