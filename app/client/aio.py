"""The client for asyncio: the same operations as in `app.client.sync`, awaited."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from contextlib import aclosing
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

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
    """One kind of thing that the service has. Belongs to one event loop."""

    def __init__(self, http: httpx.AsyncClient, policy: Policy) -> None:
        self._http = http
        self._policy = policy

    async def carry_out(self, flow: Flow[T]) -> T:
        flow = insist(flow, self._policy)
        reply: Reply = None
        while True:
            try:
                step = flow.send(reply)
            except StopIteration as end:
                done: T = end.value
                return done
            reply = await self._do(step)

    async def _do(self, step: Request | Pause) -> Reply:
        if isinstance(step, Pause):
            await asyncio.sleep(step.seconds)
            return None
        try:
            response = await self._http.send(built(self._http, step))
        except httpx.RequestError as error:
            return lost(error)
        return answered(response, response.content)

    async def _open(self, request: Request) -> httpx.Response:
        return await self._http.send(built(self._http, request), stream=True)

    async def pages(self, listing: Listing[M]) -> AsyncIterator[M]:
        after = None
        while True:
            page = await self.carry_out(listing.page(after))
            for item in page.data:
                yield item
            if (after := page.next) is None:
                return

    async def follow(self, opening: Opening) -> AsyncGenerator[Event, None]:
        feed = opening(self._policy)
        while not feed.has_ended:
            try:
                async with aclosing(await self._open(feed.request())) as response:
                    body = b"" if response.is_success else await response.aread()
                    accepted = feed.accepts(answered(response, body))
                    if accepted:
                        async for chunk in response.aiter_bytes():
                            for event in feed.read(chunk):
                                yield event
                if accepted:
                    await self.carry_out(feed.close())
            except httpx.RequestError as error:
                feed.lose(error)
            if not feed.has_ended:
                await asyncio.sleep(feed.pause)


def _call(
    operation: Callable[P, Flow[T]],
) -> Callable[Concatenate[Part, P], Coroutine[Any, Any, T]]:
    @wraps(operation)
    async def method(self: Part, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.carry_out(operation(*args, **kwargs))

    return method


def _run(
    operation: Callable[P, Flow[RunData]],
) -> Callable[Concatenate[Part, P], Coroutine[Any, Any, "AsyncRun"]]:
    @wraps(operation)
    async def method(self: Part, /, *args: P.args, **kwargs: P.kwargs) -> "AsyncRun":
        return AsyncRun.of(await self.carry_out(operation(*args, **kwargs)), self)

    return method


def _list(operation: Callable[P, Listing[M]]) -> Callable[Concatenate[Part, P], AsyncIterator[M]]:
    @wraps(operation)
    def method(self: Part, /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[M]:
        return self.pages(operation(*args, **kwargs))

    return method


def _list_runs(
    operation: Callable[P, Listing[RunData]],
) -> Callable[Concatenate[Part, P], AsyncIterator["AsyncRun"]]:
    @wraps(operation)
    def method(self: Part, /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator["AsyncRun"]:
        return (AsyncRun.of(found, self) async for found in self.pages(operation(*args, **kwargs)))

    return method


def _follow(
    operation: Callable[P, Opening],
) -> Callable[Concatenate[Part, P], AsyncGenerator[Event, None]]:
    @wraps(operation)
    def method(self: Part, /, *args: P.args, **kwargs: P.kwargs) -> AsyncGenerator[Event, None]:
        return self.follow(operation(*args, **kwargs))

    return method


def _own(
    method: Callable[Concatenate[Part, str, P], T],
) -> Callable[Concatenate["AsyncRun", P], T]:
    @wraps(method)
    def own(self: "AsyncRun", /, *args: P.args, **kwargs: P.kwargs) -> T:
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


class AsyncRun(_Doings, RunData):
    """A run as it was when it was asked for. What its methods answer is newer."""

    _part: Part = PrivateAttr()

    @classmethod
    def of(cls, data: RunData, part: Part) -> "AsyncRun":
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


class AsyncPerdure:
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
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        place = locate(url, key)
        self.url = place.url
        self._http = httpx.AsyncClient(transport=transport, **place.options())
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

    async def close(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()
