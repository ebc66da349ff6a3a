"""What a benchmark found: a table, and the goals it was held to."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from rich import box
from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Goal:
    what: str
    measured: float
    limit: float
    unit: str

    @property
    def is_met(self) -> bool:
        return self.measured <= self.limit

    def __str__(self) -> str:
        verdict = "met" if self.is_met else "MISSED"
        return f"{verdict}: {self.what}: {self.measured:.2f} {self.unit}, goal ≤ {self.limit:g}"


def p95(times: Sequence[float]) -> float:
    return statistics.quantiles(times, n=20)[-1]


@dataclass
class Report:
    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    goals: list[Goal] = field(default_factory=list)

    def add(self, *cells: str) -> None:
        self.rows.append(cells)

    def add_times(self, what: str, times: Sequence[float], floor: float) -> None:
        """p50, p95, max and p50 ÷ floor, all in ms."""
        p50 = statistics.median(times)
        self.add(what, f"{p50:.1f}", f"{p95(times):.1f}", f"{max(times):.1f}", f"{p50 / floor:.0f}")

    def show(self, console: Console) -> None:
        table = Table(box=box.MARKDOWN)
        for number, column in enumerate(self.columns):
            table.add_column(column, justify="right" if number else "left", no_wrap=True)
        for row in self.rows:
            table.add_row(*row)
        console.print(f"\n## {self.title}\n", highlight=False)
        console.print(table)
        for note in self.notes:
            console.print(note, highlight=False, soft_wrap=True)
