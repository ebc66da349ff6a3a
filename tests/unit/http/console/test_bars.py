"""The timeline's drawing."""

from datetime import UTC, datetime, timedelta

from app.http.console.rendering import TEMPLATES
from app.http.console.timeline import Line, Scale, Span

START = datetime(2030, 1, 1, tzinfo=UTC)


def test_a_line_more_is_one_bar_more_and_nothing_else() -> None:
    """Pauses and marks of a long run are many, and so are its lines."""
    begins = [START + timedelta(hours=n) for n in range(20)]
    lines = [Line("pay", f"c{b}", [Span("tool", b, b + timedelta(seconds=9))]) for b in begins]
    marks = [
        {"type": "run.resumed", "mark": "resumed", "at": b.isoformat(), "data": {}} for b in begins
    ]
    scale = Scale(span for line in lines for span in line.spans)

    drawn = str(TEMPLATES.get_template("calls.html").module.bars(lines, scale, marks))  # type: ignore[attr-defined]

    assert drawn.count('<rect class="pause"') == len(list(scale.pauses())) == 19
    assert drawn.count('<line class="mark ') == len(marks)
    assert drawn.count('<rect class="bar ') == len(lines)
    assert drawn.count('<use href="#pauses">') == drawn.count('<use href="#marks">') == len(lines)
