"""What was found, as a table for people and as JSON for machines."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from app.cli.verify.judge import Breach
from app.cli.verify.seen import Seen
from app.cli.verify.trap import Target

COLOURS = {"OK": "green", "BROKEN": "bold red", "UNDECIDED": "yellow"}
UNHARMED = "(nothing was done)"


@dataclass(frozen=True)
class Row:
    """One trial. `calls`: the state each call ended in."""

    target: Target | None
    verdict: str
    breaches: tuple[Breach, ...]
    log: Path | None
    calls: dict[str, str]

    @property
    def window(self) -> str:
        return UNHARMED if self.target is None else str(self.target.window)

    @property
    def column(self) -> str:
        return "" if self.target is None else f"{self.target.fault} {self.target.side}"

    def to_json(self) -> dict[str, Any]:
        target = self.target
        return {
            "window": self.window,
            "kind": None if target is None else target.window.kind,
            "fault": None if target is None else target.fault,
            "side": None if target is None else target.side,
            "verdict": self.verdict,
            "breaches": [vars(breach) for breach in self.breaches],
            "calls": self.calls,
            "log": str(self.log) if self.verdict == "BROKEN" else None,
        }


@dataclass
class Report:
    """`not_tried`: a tool, and whom it spoke to past both proxies. `in_earnest`: a tool, and a host
    that it asked although the script does not name it."""

    agent: str
    rows: list[Row]
    not_tried: set[tuple[str, str]] = field(default_factory=set)
    in_earnest: set[tuple[str, str]] = field(default_factory=set)
    _numbered: dict[int, Row] = field(default_factory=dict)

    def add(self, number: int, row: Row, seen: Seen) -> None:
        """`number`: its place in the table."""
        self._numbered[number] = row
        self.rows = [self._numbered[each] for each in sorted(self._numbered)]
        self.not_tried |= seen.not_tried
        self.in_earnest |= seen.in_earnest

    @property
    def is_sound(self) -> bool:
        return all(row.verdict != "BROKEN" for row in self.rows)

    @property
    def ends_unharmed(self) -> dict[str, str]:
        """How each call ends where nothing is done."""
        return next((row.calls for row in self.rows if row.target is None), {})

    @property
    def broken(self) -> list[Row]:
        return [row for row in self.rows if row.verdict == "BROKEN"]

    def to_json(self) -> str:
        return json.dumps(
            {
                "agent": self.agent,
                "sound": self.is_sound,
                "trials": len(self.rows),
                "rows": [row.to_json() for row in self.rows],
                "not_tried": [
                    {"tool": tool, "address": address} for tool, address in sorted(self.not_tried)
                ],
                "in_earnest": [
                    {"tool": tool, "host": host} for tool, host in sorted(self.in_earnest)
                ],
            },
            indent=2,
        )


def show(report: Report) -> None:
    console = Console()
    console.print(_table(report.rows))
    for call, state in report.ends_unharmed.items():
        if state != "succeeded":
            console.print(Text(f"NOTE  {call} ends {state} without any crash", "yellow"))
    for row in report.broken:
        show_broken(row, console)
    for row in report.rows:
        if row.verdict == "UNDECIDED":
            console.print(Text(f"UNDECIDED  {row.window}, {row.column}: {row.breaches[0].seen}"))
    for tool, address in sorted(report.not_tried):
        console.print(Text(f"NOT TRIED  {tool} spoke to {address}, past the proxies", "yellow"))
    warn(report.in_earnest, console)
    console.print(_sum(report))


def show_broken(row: Row, console: Console) -> None:
    console.print(Text(f"BROKEN  {row.window}, {row.column or 'no fault'}", "bold red"))
    for breach in row.breaches:
        whom = f"{breach.tool} {breach.source}".strip()
        console.print(Text(f"  {breach.invariant}\n    blamed: {whom}\n    seen: {breach.seen}"))
    console.print(Text(f"  log: {row.log}"))


def warn(in_earnest: Iterable[tuple[str, str]], console: Console) -> None:
    for tool, host in sorted(in_earnest):
        text = f"WARNING  {tool} asks {host} in earnest, in each trial; name it under `services`"
        console.print(Text(text, "bold yellow"))


def _sum(report: Report) -> Text:
    number, broken = len(report.rows), len(report.broken)
    if broken:
        return Text(f"{report.agent}: {broken} of {number} trials BROKEN", "bold red")
    return Text(f"{report.agent}: {number} trials, none BROKEN", "green")


def _table(rows: Iterable[Row]) -> Table:
    """A line for each window, a column for each way of striking it."""
    found = list(rows)
    columns = list(dict.fromkeys(row.column for row in found if row.column))
    table = Table("window", *columns)
    for window, trials in groupby(found, key=lambda row: row.window):
        cells = {row.column: row.verdict for row in trials}
        if "" in cells:
            cells |= dict.fromkeys(columns, cells[""])
        verdicts = [cells.get(column, "-") for column in columns]
        table.add_row(Text(window), *(Text(v, COLOURS.get(v, "dim")) for v in verdicts))
    return table
