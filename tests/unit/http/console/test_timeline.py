"""Bars over time: true where something was done, short where nothing was."""

from datetime import UTC, datetime, timedelta

import pytest

from app.http.console.timeline import Scale, Span, lines, marks

START = datetime(2030, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def span(start: float, end: float, kind: str = "tool") -> Span:
    return Span(kind, at(start), at(end))


def percents(scale: Scale, *seconds: float) -> list[float]:
    return [round(scale.percent(at(each)), 1) for each in seconds]


def test_without_a_pause_the_scale_is_true() -> None:
    scale = Scale([span(0, 4), span(4, 8), span(2, 3)])

    assert percents(scale, 0, 2, 4, 6, 8) == [0, 25, 50, 75, 100]
    assert list(scale.pauses()) == []


def test_a_long_pause_is_folded_and_told() -> None:
    scale = Scale([span(0, 10), span(3610, 3620)])
    (pause,) = scale.pauses()

    assert (pause.start, pause.end) == (at(10), at(3610))
    left, right = percents(scale, 10, 3610)
    assert 0 < right - left < 7
    assert left == pytest.approx(100 - right, abs=0.1)


def test_a_pause_is_short_beside_a_short_run_too() -> None:
    scale = Scale([span(0, 0.1), span(0.1, 7.1, "asked"), span(7.1, 7.2)])

    left, right = percents(scale, 0.1, 7.1)
    assert right - left < 10


def test_a_question_takes_no_more_room_than_a_pause() -> None:
    scale = Scale([span(0, 10), span(10, 90_000, "asked"), span(90_000, 90_010)])

    assert len(list(scale.pauses())) == 1
    assert percents(scale, 0, 90_010) == [0, 100]


def test_a_short_step_at_the_end_is_still_seen() -> None:
    bar = Scale([span(0, 1000), span(1000, 1000.001)]).bar(span(1000, 1000.001))

    assert float(bar.width[:-1]) > 0.5
    assert float(bar.x[:-1]) + float(bar.width[:-1]) <= 100


@pytest.mark.parametrize("spans", [[], [span(5, 5)]])
def test_nothing_or_a_moment_is_no_error(spans: list[Span]) -> None:
    scale = Scale(spans)

    assert 0 <= scale.percent(at(5)) <= 100
    assert list(scale.pauses()) == []


def attempt(
    number: int, worker: str, start: float, end: float | None, outcome: str | None
) -> dict[str, object]:
    return {
        "attempt": number,
        "worker": worker,
        "started_at": at(start).isoformat(),
        "ended_at": None if end is None else at(end).isoformat(),
        "outcome": outcome,
    }


def test_each_attempt_has_its_bar_and_its_worker() -> None:
    history = [attempt(1, "w1", 0, 1, "interrupted"), attempt(2, "w2", 2, None, None)]
    call = {
        "id": "call_1",
        "turn": 1,
        "index": 0,
        "tool": "pay",
        "state": "started",
        "compensates": None,
        "history": history,
    }
    turn = {"number": 1, "history": [attempt(1, "w1", -2, 0, "answered")]}
    first, second = lines([turn], [call], [], at(5))

    assert (first.label, second.label) == ("Turn 1", "pay")
    assert [each.kind for each in second.spans] == ["lost", "tool"]
    assert second.workers == ["w1", "w2"]
    assert second.attempts == 2
    assert second.seconds == 4
    assert second.spans[1].title == "attempt 2 on w2: under way"


def test_marks_are_what_happened_to_the_run_oldest_first() -> None:
    events = [{"type": t} for t in ("run.resumed", "call.started", "run.taken_over")]

    assert [event["mark"] for event in marks(events)] == ["taken over", "resumed"]
