"""Where a trial strikes: one passage of one window, on one side of it."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from app.cli.verify.statements import Place

Side = Literal["before", "after"]
Fault = Literal["kill", "cut"]
Kind = Literal["commit", "request"]
Victim = Literal["worker", "api"]


@dataclass(frozen=True)
class Window:
    """A commit of a process, or a call it makes to the outside; known by what it does."""

    kind: Kind
    victim: Victim
    name: str
    occurrence: int
    place: Place | None = None

    def __str__(self) -> str:
        name = self.name if self.victim == "worker" else f"{self.victim}: {self.name}"
        return name if self.occurrence == 1 else f"{name} #{self.occurrence}"

    @property
    def key(self) -> tuple[str, ...]:
        return self.kind, self.victim, self.name, str(self.occurrence)


@dataclass(frozen=True)
class Target:
    window: Window
    side: Side
    fault: Fault

    def __str__(self) -> str:
        return f"{self.window}, {self.fault} {self.side}"


@dataclass
class Trap:
    """Counts what passes by, and springs once. Without a target it only counts."""

    target: Target | None
    strike: Callable[[], None]
    windows: list[Window] = field(default_factory=list)
    is_sprung: bool = False
    _counts: Counter[tuple[str, ...]] = field(default_factory=Counter)

    def meet(self, kind: Kind, name: str, place: Place | None, victim: Victim = "worker") -> Window:
        what = (kind, victim, name)
        self._counts[what] += 1
        return Window(kind, victim, name, self._counts[what], place)

    def passed(self, window: Window) -> None:
        self.windows.append(window)

    def is_due(self, window: Window | None, side: Side) -> bool:
        return (
            window is not None
            and self.target is not None
            and not self.is_sprung
            and self.target.side == side
            and self.target.window.key == window.key
        )

    def spring(self) -> None:
        self.is_sprung = True
        self.strike()

    @property
    def kills(self) -> bool:
        return self.target is not None and self.target.fault == "kill"
