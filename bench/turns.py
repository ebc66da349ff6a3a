"""What durability adds to a turn, in milliseconds.

A turn lasts from one request of a run reaching the model server to the next one. The same requests,
byte for byte, are then sent again by a bare loop over the SDK to the same server; what a turn of
the run lasts longer than the same turn of that loop is what Perdure adds.
"""

import asyncio
import statistics
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import anthropic

from bench import journal
from bench.machine import floor
from bench.orders import POLICIES, think, use
from bench.report import Goal, Report
from bench.service import Service

TURNS = 40
ROUNDS = 7
GOAL_MS = 10.0
MODEL = "model step alone"


@dataclass
class Samples:
    """Medians of each round, in ms, by case."""

    floor: list[float] = field(default_factory=list)
    journal: list[float] = field(default_factory=list)
    run: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    bare: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    added: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))


def measure(service: Service) -> Report:
    cases = {MODEL: think(TURNS)} | {policy: use(policy, TURNS) for policy in POLICIES}
    for text in cases.values():
        service.carry_out(text)
    bare = journal.prepare(service.database)
    samples = Samples()
    for _ in range(ROUNDS):
        samples.floor.append(floor(service.database))
        samples.journal.append(journal.measure(bare))
        for case, text in cases.items():
            _sample(service, samples, case, text)
    return _report(samples)


def _sample(service: Service, samples: Samples, case: str, text: str) -> None:
    service.tell_model("forget")
    service.carry_out(text)
    requests = service.arrivals()
    run = _turns(requests)
    service.tell_model("forget")
    asyncio.run(_send_again(str(service.model.base_url), [each["body"] for each in requests]))
    bare = _turns(service.arrivals())
    samples.run[case].append(statistics.median(run))
    samples.bare[case].append(statistics.median(bare))
    samples.added[case].append(statistics.median(a - b for a, b in zip(run, bare, strict=True)))


def _turns(requests: list[dict[str, Any]]) -> list[float]:
    assert len(requests) == TURNS + 1, f"{len(requests)} requests"
    return [(after["at"] - before["at"]) / 1e6 for before, after in pairwise(requests)]


async def _send_again(url: str, bodies: list[dict[str, Any]]) -> None:
    async with anthropic.AsyncAnthropic(base_url=url, api_key="bench", max_retries=0) as client:
        for body in bodies:
            async for _event in await client.messages.create(**body):
                pass


def _report(samples: Samples) -> Report:
    commit, step = statistics.median(samples.floor), statistics.median(samples.journal)
    added = {case: statistics.median(values) for case, values in samples.added.items()}
    report = Report(
        f"A turn: medians of {ROUNDS} rounds of {TURNS} turns, in ms",
        ("one call per turn, policy", "turn", "bare", "added", "tool step", "÷ floor", "rounds"),
    )
    for case, total in added.items():
        rounds = samples.added[case]
        report.add(
            case,
            f"{statistics.median(samples.run[case]):.2f}",
            f"{statistics.median(samples.bare[case]):.2f}",
            f"{total:.2f}",
            "" if case == MODEL else f"{total - added[MODEL]:.2f}",
            f"{total / commit:.1f}",
            f"{min(rounds):.1f}-{max(rounds):.1f}",
        )
        if case != MODEL:
            what = f"a whole turn adds, {case}"
            report.goals.append(Goal(what, total, GOAL_MS, "ms"))
    report.notes.append(
        f"Floor (INSERT and commit): {commit:.3f} ms. Two bare DBOS steps: {2 * step:.2f} ms."
    )
    report.notes.append(f"A tool step is a whole turn less the model step ({added[MODEL]:.2f}).")
    return report
