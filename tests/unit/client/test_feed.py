"""The events of a run over connections that break anywhere: each once, in order, to the end."""

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from app.client import AsyncPerdure, Perdure, Problem, Unreachable
from app.client.errors import Invalid, NotFound
from app.client.feed import Feed
from app.client.models import Event
from app.client.wire import Answer, Policy

TYPES = ["run.queued", "run.started", "model.completed", "run.succeeded"]
STREAM = {"content-type": "text/event-stream; charset=utf-8"}


def frame(seq: int) -> bytes:
    event = {"seq": seq, "run": "run_1", "type": TYPES[seq - 1], "data": {}, "at": None}
    return f"id: {seq}\nevent: {TYPES[seq - 1]}\ndata: {json.dumps(event)}\n\n".encode()


ODD = [
    *("[]", "5", "null", "{", "", '{"seq": "x"}', '{"seq": 1}', "[" * 100_000),
    *('{"turn": 1}', '{"turn": 1, "attempt": 1, "offset": -1, "text": "Hi"}'),
]
LOG = b": hello\n\n" + b"".join(map(frame, range(1, len(TYPES) + 1)))


@dataclass
class Body(httpx.SyncByteStream, httpx.AsyncByteStream):
    """So much of an answer, and then the end that a stream or a broken connection has."""

    content: bytes
    breaks: bool

    def __iter__(self) -> Iterator[bytes]:
        yield self.content
        if self.breaks:
            raise httpx.ReadError("reset")

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self:
            yield chunk


@dataclass
class Service:
    """Streams the log after the cursor that it is asked for; the first answers are cut short."""

    cuts: list[tuple[int, bool]] = field(default_factory=list)
    asked: list[str | None] = field(default_factory=list)
    queries: list[str] = field(default_factory=list)
    status: int = 200

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.queries.append(request.url.query.decode())
        if request.headers["accept"] != "text/event-stream":
            after = int(request.url.params["after"])
            data = [{"seq": n + 1, "type": TYPES[n]} for n in range(after, len(TYPES))]
            return httpx.Response(200, json={"data": data, "next": None})
        cursor = request.headers.get("last-event-id")
        self.asked.append(cursor)
        if self.status != 200:
            return httpx.Response(self.status, json={"type": "/problems/not-found"})
        start = LOG.index(frame(int(cursor))) + len(frame(int(cursor))) if cursor else 0
        size, breaks = self.cuts.pop(0) if self.cuts else (len(LOG), False)
        return httpx.Response(200, headers=STREAM, stream=Body(LOG[start : start + size], breaks))


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    async def no_time(_seconds: float) -> None:
        pass

    monkeypatch.setattr("app.client.sync.time.sleep", lambda _seconds: None)
    monkeypatch.setattr("app.client.aio.asyncio.sleep", no_time)


def read(service: Service, **options: Any) -> list[Event]:
    with Perdure(transport=httpx.MockTransport(service)) as client:
        return list(client.runs.events("run_1", **options))


async def read_async(service: Service, **options: Any) -> list[Event]:
    async with AsyncPerdure(transport=httpx.MockTransport(service)) as client:
        return [event async for event in client.runs.events("run_1", **options)]


def numbers(events: list[Event]) -> list[int | None]:
    return [event.seq for event in events]


@pytest.mark.parametrize("breaks", [False, True])
async def test_a_stream_cut_at_any_place_misses_nothing_and_repeats_nothing(breaks: bool) -> None:
    for size in range(len(LOG)):
        told = read(Service([(size, breaks)]))
        assert numbers(told) == [1, 2, 3, 4], size
        assert [event.type for event in told] == TYPES
    assert numbers(await read_async(Service([(200, breaks), (5, breaks)]))) == [1, 2, 3, 4]


def test_it_asks_for_what_follows_the_last_whole_event() -> None:
    service = Service([(LOG.index(frame(3)) + 9, True)])
    read(service)
    assert service.asked == [None, "2"]


@pytest.mark.parametrize("after", [1, 3])
async def test_it_begins_after_the_event_that_the_reader_has(after: int) -> None:
    service = Service()
    assert numbers(read(service, after=after)) == list(range(after + 1, 5))
    assert service.asked == [str(after)]
    assert numbers(await read_async(Service(), after=after)) == list(range(after + 1, 5))


def test_after_the_last_event_there_is_nothing_and_it_ends() -> None:
    service = Service()
    assert read(service, after=4) == []
    assert service.asked == ["4"]


def test_a_stream_that_breaks_after_the_last_event_ends_as_well() -> None:
    service = Service([(len(LOG), True)])
    assert numbers(read(service)) == [1, 2, 3, 4]
    assert service.asked == [None, "4"]


def test_a_stream_that_closes_before_the_end_of_the_run_is_opened_again() -> None:
    service = Service([(0, False), (len(frame(1)) + 20, False)])
    assert numbers(read(service, after=1)) == [2, 3, 4]


def test_a_loss_is_told() -> None:
    lost: list[Exception | None] = []
    read(Service([(10, True), (10, False)]), on_lost=lost.append)
    assert [type(error) for error in lost] == [httpx.ReadError, type(None)]


def test_deltas_are_asked_for_only_on_request() -> None:
    plain, deltas = Service(), Service()
    read(plain)
    read(deltas, deltas=True)
    assert (plain.queries, deltas.queries) == ([""], ["deltas=1"])


def speak(offset: int, text: str, attempt: int = 1) -> bytes:
    said = {"run": "run_1", "turn": 1, "attempt": attempt, "offset": offset, "text": text}
    return f"event: model.delta\ndata: {json.dumps(said)}\n\n".encode()


def test_the_words_of_the_model_are_heard_once_and_move_no_cursor() -> None:
    answers = [
        frame(1) + speak(0, "Hel") + speak(3, "lo"),
        frame(2) + speak(0, "Hello wor") + speak(2, "llo") + speak(9, "ld") + speak(0, "Bye", 2),
        frame(3) + frame(4),
    ]
    cursors = []

    def answer(request: httpx.Request) -> httpx.Response:
        cursors.append(request.headers.get("last-event-id"))
        return httpx.Response(200, headers=STREAM, content=answers.pop(0))

    with Perdure(transport=httpx.MockTransport(answer)) as client:
        told = list(client.runs.events("run_1", deltas=True))

    assert cursors == [None, "1", "2"]
    assert [event.seq or event.data["text"] for event in told] == [
        *(1, "Hel", "lo", 2, " wor", "ld", "Bye"),
        *(3, 4),
    ]
    assert {event.type for event in told if event.seq is None} == {"model.delta"}


async def test_a_run_that_is_not_there_is_told() -> None:
    with pytest.raises(NotFound):
        read(Service(status=404))
    with pytest.raises(NotFound):
        await read_async(Service(status=404))


def test_a_gateway_with_problems_of_its_own_ends_no_stream() -> None:
    answers = [
        httpx.Response(503, json={"errors": [{"code": 1, "message": "busy"}]}),
        httpx.Response(200, headers=STREAM, content=b"".join(map(frame, range(1, 5)))),
    ]
    transport = httpx.MockTransport(lambda request: answers.pop(0))
    with Perdure(transport=transport) as client:
        assert [event.seq for event in client.runs.events("run_1")] == [1, 2, 3, 4]


def test_a_service_that_stays_away_is_told() -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    with (
        Perdure(patience=0, transport=httpx.MockTransport(refuse)) as client,
        pytest.raises(Unreachable),
    ):
        list(client.runs.events("run_1"))


def test_a_cursor_that_the_log_has_not_reached_is_told() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(422, json={"type": "/problems/invalid-request", "detail": "No."})

    with (
        Perdure(transport=httpx.MockTransport(answer)) as client,
        pytest.raises(Invalid, match=r"No\."),
    ):
        list(client.runs.events("run_1", after=99))


@pytest.mark.parametrize("data", ODD, ids=range(len(ODD)))
async def test_a_stream_of_another_form_is_told_as_one(data: str) -> None:
    body = frame(1) + f"event: model.delta\ndata: {data}\n\n".encode()
    transport = httpx.MockTransport(lambda _: httpx.Response(200, headers=STREAM, content=body))
    with Perdure(transport=transport) as client:
        events = client.runs.events("run_1")
        assert next(events).seq == 1
        with pytest.raises(Problem, match="address of a Perdure service"):
            next(events)
    async with AsyncPerdure(transport=transport) as client_:
        with pytest.raises(Problem, match="address of a Perdure service"):
            [event async for event in client_.runs.events("run_1")]


def test_what_a_later_version_streams_is_passed_over() -> None:
    later = b'event: dream\ndata: {"of": "sheep"}\n\n' + LOG
    transport = httpx.MockTransport(lambda _: httpx.Response(200, headers=STREAM, content=later))
    with Perdure(transport=transport) as client:
        assert numbers(list(client.runs.events("run_1"))) == [1, 2, 3, 4]


@dataclass
class Proxy:
    """Answers with a comment and closes, `holds` seconds later; `now` is the time of the client."""

    holds: float
    now: float = 0.0
    times: int = 0

    def follow(self, patience: float, most: int) -> None:
        feed = Feed("run_1", Policy(patience, clock=lambda: self.now))
        for _ in range(most):
            self.times += 1
            feed.request()
            feed.accepts(Answer(200, STREAM, b""))
            assert list(feed.read(b":\n\n")) == []
            self.now += self.holds
            feed.lose(httpx.ReadError("reset"))
            self.now += feed.pause


def test_comments_alone_do_not_keep_it_going() -> None:
    proxy = Proxy(holds=0.1)
    with pytest.raises(Unreachable, match="run_1"):
        proxy.follow(patience=60, most=1000)
    assert proxy.times > 10
    assert proxy.now <= 60


def test_a_run_at_which_nothing_happens_is_followed_for_as_long_as_it_takes() -> None:
    proxy = Proxy(holds=50)
    proxy.follow(patience=30, most=100)
    assert proxy.times == 100
