"""The events of one run over as many connections as it takes. Does no I/O."""

import json
from collections.abc import Callable, Iterator
from typing import Any

from app.client.errors import Unreachable
from app.client.models import TERMINAL, Event
from app.client.sse import Parser
from app.client.wire import (
    PASSING,
    Answer,
    Flow,
    Policy,
    Request,
    ask,
    path,
    problem_of,
    read,
    retry_after,
)

# The service sends a comment each 15 s: silence of this length is a dead connection.
SILENCE_SECONDS = 40.0
STREAM = "text/event-stream"

OnLost = Callable[[Exception | None], None]


def events(
    run: str, *, after: int = 0, deltas: bool = False, on_lost: OnLost | None = None
) -> "Opening":
    """What happens to a run, from the event that follows number `after` to the last one.

    A lost connection is made again, after `on_lost` is told. `deltas`: also the model's words as it
    says them.
    """
    return lambda policy: Feed(run, policy, after=after, deltas=deltas, on_lost=on_lost)


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
        return True

    def read(self, chunk: bytes) -> Iterator[Event]:
        self._calm_down()
        for frame in self._parser.feed(chunk):
            told = json.loads(frame.data)
            if "seq" not in told:
                yield from self._hear(frame.event, told)
                continue
            event = Event.model_validate(told)
            if event.seq is not None and event.seq > self._after:
                self._after = event.seq
                self._is_terminal = event.type in TERMINAL
                yield event

    def _hear(self, kind: str, told: dict[str, Any]) -> Iterator[Event]:
        """What the model says now. A new connection tells again what it has said of this answer."""
        answer, offset = (told["turn"], told["attempt"]), told["offset"]
        if answer != self._speech:
            self._speech, self._heard = answer, offset
        text = told["text"][max(self._heard - offset, 0) :]
        if text:
            self._heard = offset + len(told["text"])
            data = {**told, "offset": self._heard - len(text), "text": text}
            yield Event(run=self._run, type=kind, data=data, raw=told)

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
        found = read((yield from ask(request)))["data"]
        return [event["type"] in TERMINAL for event in found] == [True]

    def _calm_down(self) -> None:
        self._tries = 0
        self._deadline = self._policy.clock() + self._policy.patience

    def _again(self, error: Exception | None, at_least: float = 0.0) -> None:
        self.pause = max(self._policy.pause(self._tries), at_least)
        if self._policy.clock() + self.pause > self._deadline:
            raise Unreachable(f"The events of {self._run} broke off: {error}") from error
        self._tries += 1
        if self._on_lost:
            self._on_lost(error)


Opening = Callable[[Policy], Feed]
