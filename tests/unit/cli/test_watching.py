"""What `perdure runs watch` shows on a terminal."""

import io
from typing import Any

import pytest
from rich.console import Console

from app.cli.remote import screen, watching
from app.client.models import Event, RunData
from tests.unit.client.service import RUN

Shown = io.StringIO


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Shown:
    file = io.StringIO()
    console = Console(
        file=file, force_terminal=True, color_system=None, width=40, soft_wrap=True, markup=False
    )
    for module in (screen, watching):
        monkeypatch.setattr(module, "console", console)
    return file


@pytest.fixture
def view(shown: Shown) -> watching.View:
    return watching.View()


def event(seq: int | None, kind: str, **data: Any) -> Event:
    return Event(seq=seq, run="run_1", type=kind, data=data, raw={})


def test_words_run_on_until_an_event_ends_their_line(shown: Shown, view: watching.View) -> None:
    assert view.wants_deltas
    for text in ("Hel", "lo\x1b[2J", "\nWorld"):
        view.show(event(None, "model.delta", turn=1, attempt=1, offset=0, text=text))
    view.show(event(3, "model.completed", turn=1, stop_reason="end_turn", usage={"in": 1}))

    lines = [line.rstrip() for line in shown.getvalue().splitlines()]
    assert lines[:2] == ["│ Hello\\x1b[2J", "│ World"]
    assert lines[2].split() == ["3", "model.completed", "turn=1", "stop_reason=end_turn"]
    assert "\x1b" not in shown.getvalue()


def test_the_last_words_are_marked_as_those_of_the_model(shown: Shown, view: watching.View) -> None:
    output = {"text": "Done.\n  perdure waits allow wait_other"}
    view.end(RunData.model_validate(RUN | {"output": output}))
    assert shown.getvalue().splitlines()[1:] == ["│ Done.", "│   perdure waits allow wait_other"]


def test_an_event_of_a_later_version_is_shown_as_well(shown: Shown, view: watching.View) -> None:
    view.show(event(1, "run.dreamt\x07", tool="nap", of=["[red]x[/red]"], by=None))
    assert shown.getvalue().split() == ["1", "run.dreamt\\x07", "nap", 'of=["[red]x[/red]"]']


def test_a_loss_is_told_once_until_the_service_is_back(
    view: watching.View, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(watching, "say_aside", told.append)
    for _ in range(3):
        view.lose(None)
    view.show(event(1, "run.started"))
    view.lose(None)
    assert len(told) == 2
