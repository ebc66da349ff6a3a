"""When what was done, as bars over time. Long pauses are folded, or short steps would vanish."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import inf
from typing import Any

Json = dict[str, Any]

# A pause is drawn no wider than this share of all the time in which something was done.
PAUSE_SHARE = 0.06
THINNEST_BAR = 0.6

MARKED = {
    "run.taken_over": "taken over",
    "run.resumed": "resumed",
    "run.handed_off": "handed on",
    "run.cancelling": "cancel asked",
    "run.dead_letter": "given up",
    "limit.reached": "limit reached",
}


@dataclass(frozen=True)
class Span:
    kind: str
    start: datetime
    end: datetime
    title: str = ""
    worker: str | None = None


@dataclass(frozen=True)
class Bar:
    """`x` and `width` in percent."""

    x: str
    width: str
    kind: str
    title: str


@dataclass(frozen=True)
class Line:
    label: str
    place: str
    spans: list[Span] = field(default_factory=list)

    @property
    def attempts(self) -> int:
        return sum(span.kind != "asked" for span in self.spans)

    @property
    def workers(self) -> list[str]:
        return list(dict.fromkeys(span.worker for span in self.spans if span.worker))

    @property
    def seconds(self) -> float:
        return sum((s.end - s.start).total_seconds() for s in self.spans if s.kind != "asked")


class Scale:
    """From moments to percent: true inside what was done, and shortened in long pauses."""

    def __init__(self, spans: Iterable[Span]) -> None:
        busy = _merged(pair for span in spans for pair in _pairs(span))
        self._moments = [moment.timestamp() for pair in busy for moment in pair]
        worked = sum(self._moments[1::2]) - sum(self._moments[::2])
        self._longest = worked * PAUSE_SHARE or inf
        self._places = [0.0]
        for n, (a, b) in enumerate(zip(self._moments, self._moments[1:], strict=False)):
            self._places.append(self._places[-1] + ((b - a) if n % 2 == 0 else self._fold(b - a)))
        self._total = max(self._places[-1], 0.001)

    def percent(self, moment: datetime) -> float:
        if not self._moments:
            return 0.0
        at = min(max(moment.timestamp(), self._moments[0]), self._moments[-1])
        n = max(min(bisect_right(self._moments, at), len(self._moments) - 1), 1)
        left, right = self._moments[n - 1], self._moments[n]
        share = (at - left) / (right - left) if right > left else 0.0
        place = self._places[n - 1] + share * (self._places[n] - self._places[n - 1])
        return 100 * place / self._total

    def at(self, text: str) -> str:
        return f"{self.percent(datetime.fromisoformat(text)):.2f}%"

    def pauses(self) -> Iterator[Span]:
        """Those that are drawn shorter than they were."""
        for a, b in zip(self._moments[1::2], self._moments[2::2], strict=False):
            if b - a > self._longest:
                yield Span("pause", datetime.fromtimestamp(a, UTC), datetime.fromtimestamp(b, UTC))

    def bar(self, span: Span) -> Bar:
        x = self.percent(span.start)
        width = max(self.percent(span.end) - x, THINNEST_BAR)
        x = min(x, 100 - width)
        return Bar(f"{x:.2f}%", f"{width:.2f}%", span.kind, span.title)

    def _fold(self, seconds: float) -> float:
        return min(seconds, self._longest)


def lines(
    turns: Sequence[Json], calls: Sequence[Json], waits: Sequence[Json], now: datetime
) -> list[Line]:
    """A line for each turn and each call, in the order of the conversation."""
    found = [((turn["number"], -1), _turn_line(turn, now)) for turn in turns]
    asked: dict[str, list[Json]] = {}
    for wait in waits:
        asked.setdefault(wait["call"] or "", []).append(wait)
    for call in calls:
        found.append(
            ((call["turn"], call["index"]), _call_line(call, asked.get(call["id"], []), now))
        )
    return [line for _, line in sorted(found, key=lambda item: item[0])]


def marks(events: Sequence[Json]) -> list[Json]:
    """What happened to the run itself, oldest first."""
    return [
        event | {"mark": MARKED[event["type"]]}
        for event in reversed(events)
        if event["type"] in MARKED
    ]


def _turn_line(turn: Json, now: datetime) -> Line:
    spans = [_attempt("model", attempt, now) for attempt in turn["history"]]
    return Line(f"Turn {turn['number']}", f"turn-{turn['number']}", spans)


def _call_line(call: Json, waits: Sequence[Json], now: datetime) -> Line:
    spans = [_asked(wait, now) for wait in waits]
    spans += [_attempt(_kind_of(call), attempt, now) for attempt in call["history"]]
    label = f"undo {call['tool']}" if call["compensates"] else call["tool"]
    return Line(label, call["id"], sorted(spans, key=lambda span: span.start))


def _kind_of(call: Json) -> str:
    match call["state"]:
        case "outcome_unknown":
            return "unknown"
        case "failed":
            return "failed"
        case _:
            return "tool"


def _attempt(kind: str, attempt: Json, now: datetime) -> Span:
    outcome = attempt["outcome"] or ("under way" if attempt["ended_at"] is None else "ended")
    if outcome in ("interrupted", "outcome_unknown"):
        kind = "unknown" if outcome == "outcome_unknown" else "lost"
    start, end = _moment(attempt["started_at"], now), _moment(attempt["ended_at"], now)
    title = f"attempt {attempt['attempt']} on {attempt['worker']}: {outcome}"
    return Span(kind, start, max(start, end), title, attempt["worker"])


def _asked(wait: Json, now: datetime) -> Span:
    start, end = _moment(wait["created_at"], now), _moment(wait["resolved_at"], now)
    title = f"{wait['kind']}: {wait['state']}"
    return Span("asked", start, max(start, end), title)


def _moment(text: str | None, now: datetime) -> datetime:
    return now if text is None else datetime.fromisoformat(text)


def _pairs(span: Span) -> Iterable[tuple[datetime, datetime]]:
    """A question is no work: only its begin and its end have a place of their own."""
    if span.kind == "asked":
        return ((span.start, span.start), (span.end, span.end))
    return ((span.start, span.end),)


def _merged(pairs: Iterable[tuple[datetime, datetime]]) -> list[tuple[datetime, datetime]]:
    merged: list[tuple[datetime, datetime]] = []
    for start, end in sorted(pairs):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged
