"""Tables on wide terminals, on narrow ones, and into pipes."""

import io
import os
import subprocess
import sys
from datetime import timedelta
from subprocess import PIPE

import pytest
from rich.cells import cell_len
from rich.console import Console

from app.cli.remote import screen

COLUMNS = ("ID", "STATUS", "INPUT")
ROWS = [
    ("run_06h2mnd8tma2sqed0gcebwezm3", "succeeded", "[bold]Refund\x1b[2J order\tseven[/bold]"),
    ("run_06h2mm3dhg60pqek58y4byvn13", "waiting", "東京 " * 30),
]


def print_on(monkeypatch: pytest.MonkeyPatch, **options: object) -> list[str]:
    file = io.StringIO()
    console = Console(file=file, markup=False, soft_wrap=True, color_system=None, **options)  # type: ignore[arg-type]
    monkeypatch.setattr(screen, "console", console)
    screen.print_table(COLUMNS, ROWS, "Nothing.")
    assert "\x1b" not in file.getvalue()
    return file.getvalue().splitlines()


def test_a_wide_terminal_gets_a_line_for_each_row(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = print_on(monkeypatch, force_terminal=True, width=80)

    assert len(lines) == 3
    assert [line.split()[0] for line in lines] == ["ID", ROWS[0][0], ROWS[1][0]]
    assert lines[1].split()[1:3] == ["succeeded", "[bold]Refund\\x1b[2J"]
    assert all(cell_len(line) <= 80 for line in lines)
    assert lines[1].endswith("…")
    assert lines[2].split()[1:3] == ["waiting", "東京"]


def test_a_narrow_terminal_gets_all_of_each_row(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = print_on(monkeypatch, force_terminal=True, width=40)

    assert lines[0] == f"id      {ROWS[0][0]}"
    assert lines[1] == "status  succeeded"
    assert lines[3] == ""
    assert lines[6].endswith("東京 ")


def test_a_pipe_gets_tabs_and_whole_values(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = print_on(monkeypatch, force_terminal=False, width=20)

    assert [line.split("\t")[0] for line in lines] == ["ID", ROWS[0][0], ROWS[1][0]]
    assert lines[1].split("\t") == [
        *ROWS[0][:2],
        "[bold]Refund\\x1b[2J order seven[/bold]",
    ]
    assert lines[2].endswith(ROWS[1][2])


RUN_COLUMNS = ("ID", "AGENT", "STATUS", "AGE", "TURNS", "COST", "INPUT")


@pytest.mark.parametrize(
    ("width", "kept"),
    [
        (120, RUN_COLUMNS),
        (80, ("ID", "AGENT", "STATUS", "AGE", "INPUT")),
        (60, ("ID", "AGENT", "STATUS")),
    ],
)
def test_columns_are_left_out_before_a_row_takes_more_than_a_line(
    monkeypatch: pytest.MonkeyPatch, width: int, kept: tuple[str, ...]
) -> None:
    row = (ROWS[0][0], "refund-desk", "succeeded", "46 min", "3", "0.0123", "Refund it. " * 9)
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, color_system=None, width=width)
    monkeypatch.setattr(screen, "console", console)
    screen.print_table(RUN_COLUMNS, [row] * 2, "Nothing.", ("COST", "TURNS", "AGE", "INPUT"))

    head, *lines = file.getvalue().splitlines()
    assert tuple(head.split()) == kept
    assert len(lines) == 2
    assert all(line.startswith(f"{row[0]}  ") and cell_len(line) <= width for line in lines)


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (48 * 3600 - 0.2, "2 d"),
        (47 * 3600 - 2, "47 h"),
        (119.7, "2 min"),
        (82, "82 s"),
        (0.2, "0 s"),
    ],
)
def test_a_span_is_rounded_to_the_nearest(seconds: float, told: str) -> None:
    assert screen.span(timedelta(seconds=seconds)) == told


@pytest.mark.parametrize(
    "printing", ["print_json([])", "print_line('x')", "print_table(['A'], [], '')"]
)
def test_a_reader_that_has_gone_ends_the_command_as_sigpipe_would(printing: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    code = f"from app.cli.remote import screen; screen.{printing}"
    done = subprocess.run([sys.executable, "-c", code], stdout=writer, stderr=PIPE, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")
