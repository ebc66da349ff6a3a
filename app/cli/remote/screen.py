"""What commands print: tables and fields for people, JSON for programs.

Text from elsewhere is never markup, and never reaches a terminal as it came.
"""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from app.cli.remote.exits import Exit
from app.cli.remote.text import plain

NARROWEST_COLUMN = 20
# Of a table that rather stays one line to a row.
NARROWEST_INPUT = 12
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


class Screen(Console):
    def on_broken_pipe(self) -> None:
        """Nobody reads any more: as if by SIGPIPE, whichever thread has written."""
        os._exit(Exit.CUT_OFF)


console = Screen(markup=False, highlight=False, emoji=False, soft_wrap=True)
aside = Screen(stderr=True, markup=False, highlight=False, emoji=False, soft_wrap=True)


def print_json(document: object) -> None:
    """One document on one line, in ASCII."""
    _write(json.dumps(document) + "\n")


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


def print_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    nothing: str,
    droppable: Sequence[str] = (),
) -> None:
    """On a narrow terminal without the `droppable` columns, the first of them first, and where
    that is not enough row by row; where no terminal is, columns are parted by tabs.
    """
    if not console.is_terminal:
        _write("".join("\t".join(map(plain, row)) + "\n" for row in [columns, *rows]))
    elif not rows:
        print_line(nothing, "dim")
    elif (fitting := _narrow(columns, rows, droppable)) is not None:
        _print_wide(*fitting)
    else:
        for row in rows:
            print_fields(zip(map(str.lower, columns), row, strict=True))
            console.print()


def _narrow(
    columns: Sequence[str], rows: Sequence[Sequence[str]], droppable: Sequence[str]
) -> tuple[Sequence[str], Sequence[Sequence[str]]] | None:
    """The columns that there is room for."""
    narrowest = NARROWEST_INPUT if droppable else NARROWEST_COLUMN
    kept = list(range(len(columns)))
    for name in ("", *droppable):
        kept = [place for place in kept if columns[place] != name]
        names, cells = [columns[place] for place in kept], [[row[p] for p in kept] for row in rows]
        *widths, last = _widths(names, cells)
        if sum(widths) + min(last - GAP, narrowest) <= console.width:
            return names, cells
    return None


def _print_wide(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    *widths, _ = _widths(columns, rows)
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    for column, width in zip(columns[:-1], widths, strict=True):
        table.add_column(column, width=width - GAP, no_wrap=True)
    rest = console.width - sum(widths)
    table.add_column(columns[-1], max_width=rest, overflow="ellipsis", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(plain(cell), tone(cell)) for cell in row))
    console.print(table, soft_wrap=False)


def _widths(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    """With the gap to the next column."""
    cells = zip(columns, *rows, strict=True)
    return [max(cell_len(plain(cell)) for cell in column) + GAP for column in cells]


def tone(value: str) -> str:
    return COLOURS.get(value, "")


def age(moment: datetime | None) -> str:
    """How long ago, or in how long."""
    if moment is None:
        return ""
    between = datetime.now(UTC) - moment  # noqa: TID251 - shown to a person, stored nowhere
    return span(between) if between > timedelta(0) else f"in {span(-between)}"


def ago(moment: datetime) -> str:
    """Of what is past, by whichever clock."""
    return f"{age(moment).removeprefix('in ')} ago"


def span(between: timedelta) -> str:
    seconds = round(between.total_seconds())
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{round(seconds / size)} {unit}"
    return f"{seconds} s"


def clock(moment: datetime | None) -> str:
    return moment.astimezone().strftime("%H:%M:%S") if moment else " " * 8


def raw(items: Iterable[Any]) -> list[Any]:
    """Typed answers as the service sent them."""
    return [item.raw for item in items]


def _write(text: str) -> None:
    """As it is, past the console."""
    try:
        console.file.write(text)
        console.file.flush()
    except BrokenPipeError:
        console.on_broken_pipe()


def say_aside(text: str) -> None:
    """To a person, and into no pipe."""
    aside.print(Text(plain(text, lines=True), "dim"))


@contextmanager
def progress(text: str) -> Iterator[None]:
    """Shown on a terminal, beside the output."""
    with aside.status(Text(plain(text))) if aside.is_terminal else nullcontext():
        yield
