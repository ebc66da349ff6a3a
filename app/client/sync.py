"""The client for ordinary code: the operations of this package, each carried out at once."""

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from functools import wraps
from types import TracebackType
from typing import Concatenate, ParamSpec, Self, TypeVar

import httpx
from pydantic import BaseModel, PrivateAttr

from app.client import decisions, fleet, runs
from app.client.connection import answered, built, locate, lost
from app.client.feed import Opening, events
from app.client.listing import Listing
from app.client.models import Event, RunData
from app.client.wire import Flow, Pause, Policy, Reply, Request, insist

P = ParamSpec("P")
T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)


class Part:
    """One kind of thing that the service has. May be shared by threads."""

    def __init__(self, http: httpx.Client, policy: Policy) -> None:
        self._http = http
        self._policy = policy

    def carry_out(self, flow: Flow[T]) -> T:
        flow = insist(flow, self._policy)
        reply: Reply = None
        while True:
            try:
                step = flow.send(reply)
            except StopIteration as end:
                done: T = end.value
                return done
            reply = self._do(step)

    def _do(self, step: Request | Pause) -> Reply:
        if isinstance(step, Pause):
            time.sleep(step.seconds)
            return None
        try:
            response = self._http.send(built(self._http, step))
        except httpx.RequestError as error:
            return lost(error)
        return answered(response, response.content)

    def _open(self, request: Request) -> httpx.Response:
        return self._http.send(built(self._http, request), stream=True)

    def pages(self, listing: Listing[M]) -> Iterator[M]:
        after = None
        while True:
            page = self.carry_out(listing.page(after))
            yield from page.data
            if (after := page.next) is None:
                return

    def follow(self, opening: Opening) -> Generator[Event, None, None]:
        feed = opening(self._policy)
        while not feed.has_ended:
            try:
                with closing(self._open(feed.request())) as response:
                    body = b"" if response.is_success else response.read()
                    accepted = feed.accepts(answered(response, body))
                    if accepted:
                        for chunk in response.iter_bytes():
                            yield from feed.read(chunk)
                if accepted:
                    self.carry_out(feed.close())
            except httpx.RequestError as error:
                feed.lose(error)
            if not feed.has_ended:
                time.sleep(feed.pause)


def _call(operation: Callable[P, Flow[T]]) -> Callable[Concatenate[Part, P], T]:
    @wraps(operation)
    def method(self: Part, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.carry_out(operation(*args, **kwargs))

    return method


def _run(operation: Callable[P, Flow[RunData]]) -> Callable[Concatenate[Part, P], "Run"]:
    @wraps(operation)
    def method(self: Part, /, *args: P.args, **kwargs: P.kwargs) -> "Run":
        return Run.of(self.carry_out(operation(*args, **kwargs)), self)

    return method


def _list(operation: Callable[P, Listing[M]]) -> Callable[Concatenate[Part, P], Iterator[M]]:
    @wraps(operation)
    def method(self: Part, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[M]:
        return self.pages(operation(*args, **kwargs))

    return method


def _list_runs(
    operation: Callable[P, Listing[RunData]],
) -> Callable[Concatenate[Part, P], Iterator["Run"]]:
    @wraps(operation)
    def method(self: Part, /, *args: P.args, **kwargs: P.kwargs) -> Iterator["Run"]:
        return (Run.of(found, self) for found in self.pages(operation(*args, **kwargs)))

    return method


def _follow(
    operation: Callable[P, Opening],
) -> Callable[Concatenate[Part, P], Generator[Event, None, None]]:
    @wraps(operation)
    def method(self: Part, /, *args: P.args, **kwargs: P.kwargs) -> Generator[Event, None, None]:
        return self.follow(operation(*args, **kwargs))

    return method


def _own(
    method: Callable[Concatenate[Part, str, P], T],
) -> Callable[Concatenate["Run", P], T]:
    @wraps(method)
    def own(self: "Run", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return method(self._part, self.id, *args, **kwargs)

    return own


class Runs(Part):
    submit = _run(runs.submit)
    get = _run(runs.get)
    wait = _run(runs.wait)
    cancel = _run(runs.cancel)
    resume = _run(runs.resume)
    fork = _run(runs.fork)
    send = _call(runs.send)
    withdraw = _call(runs.withdraw)
    turns = _list(runs.turns)
    calls = _list(runs.calls)
    messages = _list(runs.messages)
    waits = _list(runs.waits)

    list = _list_runs(runs.list_runs)
    events = _follow(events)


class _Doings:
    """What can be done with any run, here with one."""

    refresh = _own(Runs.get)
    wait = _own(Runs.wait)
    events = _own(Runs.events)
    cancel = _own(Runs.cancel)
    resume = _own(Runs.resume)
    fork = _own(Runs.fork)
    send = _own(Runs.send)
    withdraw = _own(Runs.withdraw)
    turns = _own(Runs.turns)
    calls = _own(Runs.calls)
    messages = _own(Runs.messages)
    waits = _own(Runs.waits)


class Run(_Doings, RunData):
    """A run as it was when it was asked for. What its methods answer is newer."""

    _part: Part = PrivateAttr()

    @classmethod
    def of(cls, data: RunData, part: Part) -> "Run":
        run = cls.model_construct(**data.__dict__)
        run._part = part
        return run


class Approvals(Part):
    list = _list(decisions.list_approvals)
    allow = _call(decisions.allow)
    deny = _call(decisions.deny)


class Waits(Part):
    list = _list(decisions.list_waits)
    get = _call(decisions.get_wait)
    answer = _call(decisions.answer)
    settle = _call(decisions.settle)
    post_result = _call(decisions.post_result)


class Calls(Part):
    list_unknown = _list(decisions.list_unknown)
    settle = _call(decisions.settle_call)


class Rules(Part):
    list = _list(decisions.list_rules)
    revoke = _call(decisions.revoke)


class Workers(Part):
    list = _list(fleet.workers)


class Agents(Part):
    list = _list(fleet.agents)


class Tools(Part):
    list = _list(fleet.tools)


class Sessions(Part):
    get = _call(fleet.session)
    transcript = _call(fleet.transcript)


class Deliveries(Part):
    list = _list(fleet.deliveries)
    redeliver = _call(fleet.redeliver)


class Perdure:
    """A client of the service at `url`, or at PERDURE_URL, or on this machine.

    `key`: or PERDURE_API_KEY. `patience`: for how many seconds a request that finds no service is
    repeated. `transport`: instead of httpx's own.
    """

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        patience: float = 60.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        place = locate(url, key)
        self.url = place.url
        self._http = httpx.Client(transport=transport, **place.options())
        parts = self._http, Policy(patience)
        self.runs = Runs(*parts)
        self.approvals = Approvals(*parts)
        self.waits = Waits(*parts)
        self.calls = Calls(*parts)
        self.rules = Rules(*parts)
        self.workers = Workers(*parts)
        self.agents = Agents(*parts)
        self.tools = Tools(*parts)
        self.sessions = Sessions(*parts)
        self.deliveries = Deliveries(*parts)

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
