"""What commands print: tables and fields for people, JSON for programs.

Text from elsewhere is never markup, and never reaches a terminal as it came.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from app.cli.remote.text import plain

NARROWEST_COLUMN = 20
GAP = 2
# Before the lines of what others have said, which may look like the command's own.
MARK = "│ "
COLOURS = {
    "succeeded": "green",
    "failed": "red",
    "dead_letter": "red",
    "waiting": "yellow",
    "cancelling": "yellow",
    "running": "cyan",
    "open": "yellow",
    "outcome_unknown": "red",
    "lost": "red",
}

console = Console(markup=False, highlight=False, emoji=False, soft_wrap=True)
aside = Console(stderr=True, markup=False, highlight=False, emoji=False, soft_wrap=True)


def print_json(document: object) -> None:
    """One document on one line, in ASCII."""
    console.file.write(json.dumps(document) + "\n")
    console.file.flush()


def print_line(text: str, style: str = "") -> None:
    console.print(Text(plain(text, lines=True), style))


def print_fields(fields: Iterable[tuple[str, str]]) -> None:
    """What is empty is left out. The further lines of a value are marked as belonging to it."""
    given = [(name, value) for name, value in fields if value]
    width = max((len(name) for name, _ in given), default=0)
    for name, value in given:
        first, *more = plain(value, lines=True).split("\n")
        console.print(Text(f"{name:<{width}}  ", "dim") + Text(first, tone(value)))
        for line in more:
            console.print(Text(f"{'':<{width}}{MARK}", "dim") + Text(line, tone(value)))


def print_said(text: str) -> None:
    """Text of many lines by somebody else: each is marked as theirs."""
    for line in plain(text, lines=True).split("\n"):
        console.print(Text(MARK, "dim") + Text(line))


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], nothing: str) -> None:
    """On a narrow terminal row by row; where no terminal is, columns are parted by tabs."""
    if not console.is_terminal:
        for row in [columns, *rows]:
            console.file.write("\t".join(map(plain, row)) + "\n")
        console.file.flush()
    elif not rows:
        print_line(nothing, "dim")
    elif sum(widths := _widths(columns, rows)) + NARROWEST_COLUMN > console.width:
        for row in rows:
            print_fields(zip(map(str.lower, columns), row, strict=True))
            console.print()
    else:
        _print_wide(columns, rows, widths)


def _print_wide(
    columns: Sequence[str], rows: Sequence[Sequence[str]], widths: Sequence[int]
) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    for column, width in zip(columns[:-1], widths, strict=True):
        table.add_column(column, width=width - GAP, no_wrap=True)
    rest = console.width - sum(widths)
    table.add_column(columns[-1], max_width=rest, overflow="ellipsis", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(plain(cell), tone(cell)) for cell in row))
    console.print(table, soft_wrap=False)


def _widths(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    """Of all columns but the last, which gives way; with the gap to the next."""
    cells = list(zip(columns, *rows, strict=True))[:-1]
    return [max(cell_len(plain(cell)) for cell in column) + GAP for column in cells]


def tone(value: str) -> str:
    return COLOURS.get(value, "")


def age(moment: datetime | None) -> str:
    """How long ago, or in how long."""
    if moment is None:
        return ""
    between = datetime.now(UTC) - moment  # noqa: TID251 - shown to a person, stored nowhere
    return _span(between) if between > timedelta(0) else f"in {_span(-between)}"


def _span(between: timedelta) -> str:
    seconds = int(between.total_seconds())
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def clock(moment: datetime | None) -> str:
    return moment.astimezone().strftime("%H:%M:%S") if moment else " " * 8


def raw(items: Iterable[Any]) -> list[Any]:
    """Typed answers as the service sent them."""
    return [item.raw for item in items]


def say_aside(text: str) -> None:
    """To a person, and into no pipe."""
    aside.print(Text(plain(text, lines=True), "dim"))


@contextmanager
def progress(text: str) -> Iterator[None]:
    """Shown on a terminal, beside the output."""
    with aside.status(Text(plain(text))) if aside.is_terminal else nullcontext():
        yield
