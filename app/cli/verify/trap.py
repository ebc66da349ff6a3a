"""Where a trial strikes: one passage of one window, on one side of it."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from app.cli.verify.statements import Place

Side = Literal["before", "after"]
Fault = Literal["kill", "cut"]
Kind = Literal["commit", "request"]


@dataclass(frozen=True)
class Window:
    """A commit of the worker, or a call it makes to the outside; known by what it does."""

    kind: Kind
    name: str
    occurrence: int
    place: Place | None = None

    def __str__(self) -> str:
        return self.name if self.occurrence == 1 else f"{self.name} #{self.occurrence}"

    @property
    def key(self) -> tuple[str, str, int]:
        return self.kind, self.name, self.occurrence


@dataclass(frozen=True)
class Target:
    window: Window
    side: Side
    fault: Fault


@dataclass
class Trap:
    """Counts what passes by, and springs once. Without a target it only counts."""

    target: Target | None
    strike: Callable[[], None]
    windows: list[Window] = field(default_factory=list)
    is_sprung: bool = False
    _counts: Counter[tuple[str, str]] = field(default_factory=Counter)

    def meet(self, kind: Kind, name: str, place: Place | None) -> Window:
        self._counts[kind, name] += 1
        return Window(kind, name, self._counts[kind, name], place)

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
