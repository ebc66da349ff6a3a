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
# What reading an answer fails with that is of another form; pydantic's errors are ValueErrors.
ODD = (ValueError, TypeError, KeyError, RecursionError)
# The same request may be answered otherwise later.
PASSING = frozenset({429, 502, 503, 504})
REFUSED_UNREAD = 429
GATEWAY_TIMEOUT = 504


@dataclass(frozen=True, slots=True)
class Request:
    """`repeatable`: sent twice, it does no more than sent once. `seconds`: between two bytes.

    `held`: the answer is long in coming, so that a proxy's 504 says no more than that.
    """

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    seconds: float = READ_SECONDS
    repeatable: bool = True
    held: bool = False
    patience: float | None = None

    @property
    def changes(self) -> bool:
        return self.method != "GET"

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


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
        elif reply.status in PASSING and not _was_held(request, reply):
            unsent = reply.status == REFUSED_UNREAD
            pause = max(pause, retry_after(reply))
        elif reply.status >= 500:
            return _give_up(request, reply, may_be_done=True)
        else:
            return replace(reply, repeated=repeated)
        is_over = policy.clock() + pause > deadline
        repeated = repeated or not unsent
        if is_over or not (unsent or request.repeatable):
            return _give_up(request, reply, may_be_done=repeated)
        tries += 1
        yield Pause(pause)


def _was_held(request: Request, answer: Answer) -> bool:
    return request.held and answer.status == GATEWAY_TIMEOUT


def _give_up(request: Request, reply: Answer | Lost, *, may_be_done: bool) -> Answer:
    """A 5xx leaves open what was done, as no answer does: a commit may have been lost."""
    is_certain = not (request.changes and may_be_done)
    if isinstance(reply, Answer):
        if is_certain:
            return reply
        error: Exception = problem_of(reply)
        became = f"is {reply.status}"
    else:
        error, became = reply.error, "was lost"
    reason = str(error) or type(error).__name__
    if is_certain:
        raise Unreachable(f"The service does not answer {request}: {reason}") from error
    raise Uncertain(f"The answer to {request} {became}; it may have been done: {reason}") from error


def ask(request: Request) -> Flow[Answer]:
    """Within an operation: `insist` has seen to it that an answer comes."""
    answer = yield request
    assert isinstance(answer, Answer)
    return answer


def fetch(request: Request, form: Callable[[Any], T]) -> Flow[T]:
    """Within an operation: what is answered, in its form."""
    return read(request, (yield from ask(request)), form)


def read(request: Request, answer: Answer, form: Callable[[Any], T]) -> T:
    """What an answer says that grants the request; else raises the problem."""
    if not 200 <= answer.status < 300:
        raise problem_of(answer)
    try:
        return form(json.loads(answer.body))
    except ODD:
        problem = foreign(f"The answer to {request}", answer)
    if request.changes:
        raise Uncertain(f"{problem} It may have been done.") from problem
    raise problem


def foreign(what: str, answer: Answer) -> Problem:
    detail = f"{what} is not a Perdure service's. Is this the address of a Perdure service?"
    return Problem(answer.status, {"detail": detail}, answer.headers)


def problem_of(answer: Answer) -> Problem:
    try:
        raw = json.loads(answer.body)
    except (ValueError, RecursionError):
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
    try:
        return "/v1/" + "/".join(quote(part, safe="") for part in parts)
    except UnicodeEncodeError as error:
        raise Unusable(f"{error.object!r} is no id") from None
