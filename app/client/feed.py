"""The events of one run over as many connections as it takes. Does no I/O."""

import json
from collections.abc import Callable, Iterator
from typing import Any

from pydantic import BaseModel, Field

from app.client.errors import Unreachable
from app.client.models import TERMINAL, Event
from app.client.sse import Frame, Parser
from app.client.wire import (
    ODD,
    PASSING,
    Answer,
    Flow,
    Policy,
    Request,
    fetch,
    foreign,
    path,
    problem_of,
    retry_after,
)

# The service sends a comment each 15 s: silence of this length is a dead connection.
SILENCE_SECONDS = 40.0
# A connection that held for so long was one: patience begins anew with its loss.
STEADY_SECONDS = 5.0
STREAM = "text/event-stream"
DELTA = ".delta"

OnLost = Callable[[Exception | None], None]


def events(
    run: str, *, after: int = 0, deltas: bool = False, on_lost: OnLost | None = None
) -> "Opening":
    """What happens to a run, from the event that follows number `after` to the last one.

    A lost connection is made again, after `on_lost` is told. `deltas`: also the model's words as it
    says them.
    """
    return lambda policy: Feed(run, policy, after=after, deltas=deltas, on_lost=on_lost)


class Delta(BaseModel):
    """What the model says, and from which character of its answer on."""

    turn: int
    attempt: int
    offset: int = Field(ge=0)
    text: str


class Feed:
    """Where the reader is in the log, and when to ask again."""

    def __init__(
        self,
        run: str,
        policy: Policy,
        *,
        after: int = 0,
        deltas: bool = False,
        on_lost: OnLost | None = None,
    ) -> None:
        self._run = run
        self._policy = policy
        self._after = after
        self._deltas = deltas
        self._on_lost = on_lost
        self._is_terminal: bool | None = None if after else False
        self._parser = Parser()
        # The turn and attempt that speak, and how far they have been heard.
        self._speech: tuple[int, int] | None = None
        self._heard = 0
        self._stream: Answer | None = None
        self._opened = 0.0
        self._calm_down()
        self.has_ended = False
        self.pause = 0.0

    def request(self) -> Request:
        """For what comes after the last event that was read."""
        self._parser = Parser()
        headers = {"accept": STREAM}
        if self._after:
            headers["last-event-id"] = str(self._after)
        query = {"deltas": "1"} if self._deltas else {}
        place = path("runs", self._run, "events")
        return Request("GET", place, query, headers=headers, seconds=SILENCE_SECONDS)

    def accepts(self, answer: Answer) -> bool:
        """Whether a stream follows; if not, the answer is to be asked for again."""
        if answer.status in PASSING:
            self._again(problem_of(answer), retry_after(answer))
            return False
        if answer.status != 200 or not answer.headers.get("content-type", "").startswith(STREAM):
            raise problem_of(answer)
        self._stream, self._opened = answer, self._policy.clock()
        return True

    def read(self, chunk: bytes) -> Iterator[Event]:
        for frame in self._parser.feed(chunk):
            try:
                event = self._take(frame.event, _object(frame))
            except ODD as error:
                assert self._stream is not None
                raise foreign(f"What is streamed of {self._run}", self._stream) from error
            if event is not None:
                # Comments alone are no sign of a service: a proxy sends them as well.
                self._calm_down()
                yield event

    def _take(self, kind: str, told: dict[str, Any]) -> Event | None:
        """What is new in a frame; what is not stored and of no known kind is passed over."""
        if "seq" in told:
            return self._store(Event.model_validate(told))
        return self._hear(kind, Delta.model_validate(told), told) if kind.endswith(DELTA) else None

    def _store(self, event: Event) -> Event | None:
        if event.seq is None or event.seq <= self._after:
            return None
        self._after = event.seq
        self._is_terminal = event.type in TERMINAL
        return event

    def _hear(self, kind: str, delta: Delta, told: dict[str, Any]) -> Event | None:
        """What the model says now. A new connection tells again what it has said of this answer."""
        answer = delta.turn, delta.attempt
        if answer != self._speech:
            self._speech, self._heard = answer, delta.offset
        text = delta.text[max(self._heard - delta.offset, 0) :]
        if not text:
            return None
        self._heard = delta.offset + len(delta.text)
        data = {**told, "offset": self._heard - len(text), "text": text}
        return Event(run=self._run, type=kind, data=data, raw=told)

    def close(self) -> Flow[None]:
        """The service has closed the stream: after the end of the run, or because it stops."""
        if self._is_terminal is None:
            self._is_terminal = yield from self._look()
        self.has_ended = self._is_terminal
        if not self.has_ended:
            self._again(None)

    def lose(self, error: Exception) -> None:
        """The connection broke, or none could be made."""
        self._again(error)

    def _look(self) -> Flow[bool]:
        """Whether the event that a reader came with is the last of a run that has ended."""
        query = {"after": str(self._after - 1), "limit": "2"}
        request = Request("GET", path("runs", self._run, "events"), query)
        return (
            yield from fetch(
                request, lambda told: [each["type"] in TERMINAL for each in told["data"]] == [True]
            )
        )

    def _calm_down(self) -> None:
        self._tries = 0
        self._deadline = self._policy.clock() + self._policy.patience

    def _again(self, error: Exception | None, at_least: float = 0.0) -> None:
        if self._stream and self._policy.clock() - self._opened >= STEADY_SECONDS:
            self._calm_down()
        self._stream = None
        self.pause = max(self._policy.pause(self._tries), at_least)
        if self._policy.clock() + self.pause > self._deadline:
            reason = "the stream is closed again and again" if error is None else error
            raise Unreachable(f"The events of {self._run} broke off: {reason}") from error
        self._tries += 1
        if self._on_lost:
            self._on_lost(error)


def _object(frame: Frame) -> dict[str, Any]:
    told = json.loads(frame.data)
    if not isinstance(told, dict):
        raise TypeError(f"an event is an object, not {frame.data}")
    return told


Opening = Callable[[Policy], Feed]
