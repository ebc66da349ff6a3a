"""One exchange with the service as data, and the rule by which it is repeated. Does no I/O.

An operation is a `Flow`: it yields what it needs done and is given the answer. `app.client.sync`
and `app.client.aio` carry flows out, each in its own way.
"""

import json
import secrets
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, TypeVar
from urllib.parse import quote

from app.client.errors import PROBLEMS, Problem, Uncertain, Unreachable, Unusable

T = TypeVar("T")

READ_SECONDS = 30.0
# The same request may be answered otherwise later.
PASSING = frozenset({429, 502, 503, 504})
REFUSED_UNREAD = 429


@dataclass(frozen=True, slots=True)
class Request:
    """`repeatable`: sent twice, it does no more than sent once. `seconds`: between two bytes."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    seconds: float = READ_SECONDS
    repeatable: bool = True
    patience: float | None = None


@dataclass(frozen=True, slots=True)
class Pause:
    seconds: float


@dataclass(frozen=True, slots=True)
class Answer:
    """Names of headers are in lower case. `repeated`: an earlier try may have arrived as well."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class Lost:
    """No answer came. `unsent`: the request has surely not arrived."""

    error: Exception
    unsent: bool


Reply: TypeAlias = Answer | Lost | None
Flow: TypeAlias = Generator[Request | Pause, Reply, T]


@dataclass(frozen=True)
class Policy:
    """For how long a request is repeated, in seconds, and with which pauses."""

    patience: float = 60.0
    first_pause: float = 0.2
    longest_pause: float = 5.0
    clock: Callable[[], float] = time.monotonic

    def pause(self, tries: int) -> float:
        """Half of it is chance: clients that lost one server do not come back as one."""
        longest: float = min(self.longest_pause, self.first_pause * 2.0 ** min(tries, 30))
        return longest * (0.5 + secrets.randbelow(1000) / 2000)


def insist(flow: Flow[T], policy: Policy) -> Flow[T]:
    """The same flow, with each request repeated while that is safe and there is patience."""
    reply: Reply = None
    while True:
        try:
            step = flow.send(reply)
        except StopIteration as end:
            done: T = end.value
            return done
        reply = (yield step) if isinstance(step, Pause) else (yield from _repeat(step, policy))


def _repeat(request: Request, policy: Policy) -> Flow[Answer]:
    patience = policy.patience if request.patience is None else request.patience
    deadline = policy.clock() + patience
    tries, repeated = 0, False
    while True:
        reply = yield request
        assert reply is not None
        pause = policy.pause(tries)
        if isinstance(reply, Lost):
            unsent = reply.unsent
        elif reply.status in PASSING:
            unsent = reply.status == REFUSED_UNREAD
            pause = max(pause, retry_after(reply))
        else:
            return replace(reply, repeated=repeated)
        is_over = policy.clock() + pause > deadline
        repeated = repeated or not unsent
        if is_over or not (unsent or request.repeatable):
            return _give_up(request, reply, may_be_done=repeated)
        tries += 1
        yield Pause(pause)


def _give_up(request: Request, reply: Answer | Lost, *, may_be_done: bool) -> Answer:
    if isinstance(reply, Answer):
        return reply
    what = f"{request.method} {request.path}"
    reason = str(reply.error) or type(reply.error).__name__
    if request.method == "GET" or not may_be_done:
        raise Unreachable(f"The service does not answer {what}: {reason}") from reply.error
    raise Uncertain(
        f"The answer to {what} was lost; it may have been done: {reason}"
    ) from reply.error


def ask(request: Request) -> Flow[Answer]:
    """Within an operation: `insist` has seen to it that an answer comes."""
    answer = yield request
    assert isinstance(answer, Answer)
    return answer


def read(answer: Answer) -> Any:  # noqa: ANN401 - any JSON
    """The body of an answer that grants what was asked; else raises the problem."""
    if not 200 <= answer.status < 300:
        raise problem_of(answer)
    try:
        return json.loads(answer.body)
    except ValueError:
        raise Problem(
            answer.status,
            {"detail": "The answer is not JSON: is this the address of a Perdure service?"},
            answer.headers,
        ) from None


def problem_of(answer: Answer) -> Problem:
    try:
        raw = json.loads(answer.body)
    except ValueError:
        raw = None
    if not isinstance(raw, dict):
        raw = {"detail": f"The answer is {answer.status}, and not from Perdure itself."}
    code = str(raw.get("type", "")).removeprefix("/problems/")
    return PROBLEMS.get(code, Problem)(answer.status, raw, answer.headers)


def retry_after(answer: Answer) -> float:
    given = answer.headers.get("retry-after", "")
    return float(given) if given.isascii() and given.isdigit() else 0.0


def path(*parts: str) -> str:
    """Ids come from anywhere: none of them may lead to another path."""
    for part in parts:
        if not part or part in (".", ".."):
            raise Unusable(f"{part!r} is no id")
    return "/v1/" + "/".join(quote(part, safe="") for part in parts)
