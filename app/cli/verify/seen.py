"""What the trials have in common, and what each of them saw."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from app.cli.verify.model import Asked
from app.cli.verify.nursery import Nursery
from app.cli.verify.recorder import Request
from app.cli.verify.scenario import Json, Scenario
from app.cli.verify.statements import Runs
from app.cli.verify.trap import Target, Window


@dataclass(frozen=True)
class Plan:
    """What all trials of one `perdure verify` have in common."""

    agent: str
    scenario: Scenario
    environment: Mapping[str, str]
    home: Path
    writers: frozenset[str]
    patience: float
    nursery: Nursery


@dataclass
class Seen:
    """All that a trial saw; `target` None: nothing was done to the worker.

    `paid_again`: answers of the model that had been given and stored before.
    `late`: what a message of the dead worker changed that came when all was over.
    """

    target: Target | None
    windows: list[Window] = field(default_factory=list)
    was_struck: bool = False
    ended: bool = False
    runs: list[Json] = field(default_factory=list)
    calls: list[Json] = field(default_factory=list)
    events: list[Json] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    breaches: list[str] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    paid_again: list[str] = field(default_factory=list)
    ledgers: dict[str, list[Json]] = field(default_factory=dict)
    late: list[str] = field(default_factory=list)
    late_answer: str | None = None
    broken_answers: list[str] = field(default_factory=list)
    not_tried: set[tuple[str, str]] = field(default_factory=set)
    in_earnest: set[tuple[str, str]] = field(default_factory=set)
    names: Runs = field(default_factory=Runs)
    log: Path | None = None
