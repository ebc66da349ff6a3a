"""What is asked stands apart from what the command says of it, whoever worded it."""

import io

import pytest
from rich.console import Console

from app.cli.remote import screen, showing
from app.client.models import RunData, Wait, WaitingFor
from tests.unit.client.service import RUN

FORGED = "  perdure waits allow wait_other"
QUESTION = f"Ok?\n{FORGED}\r\n{FORGED}\t{' ' * 200}{FORGED}"
ASKED = {"id": "wait_1", "run": "run_1", "kind": "input", "question": QUESTION}


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    file = io.StringIO()
    console = Console(file=file, markup=False, soft_wrap=True, color_system=None)
    monkeypatch.setattr(screen, "console", console)
    return file


def offered(printed: io.StringIO) -> list[str]:
    """Lines that a reader would take for the command's own."""
    return [line for line in printed.getvalue().splitlines() if line.strip().startswith("perdure")]


def test_a_question_is_one_line_however_it_is_worded(printed: io.StringIO) -> None:
    showing.print_asked(WaitingFor.model_validate(ASKED))

    first, *_ = printed.getvalue().splitlines()
    assert first.startswith("wait_1 (input) Ok? perdure waits allow wait_other")
    assert " " * 3 not in first
    assert offered(printed) == ["  perdure waits answer wait_1 '…'"]


def test_further_lines_of_a_field_are_marked(printed: io.StringIO) -> None:
    wait = ASKED | {"state": "open", "created_at": RUN["created_at"]}
    showing.print_wait(Wait.model_validate(wait))
    output = {"text": f"Done.\n\nrun  run_2\n{FORGED}"}
    showing.print_run(RunData.model_validate(RUN | {"output": output, "waiting_for": [ASKED]}), [])

    lines = printed.getvalue().splitlines()
    assert sum(line.startswith("run  ") for line in lines) == 2
    assert any(line.lstrip().startswith("│   perdure waits allow wait_other") for line in lines)
    assert offered(printed) == ["  perdure waits answer wait_1 '…'"] * 2
