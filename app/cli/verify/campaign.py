"""All trials of one agent: first none is harmed, then each window is struck on either side."""

import asyncio
import fnmatch
from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from app.cli.verify.database import Template
from app.cli.verify.judge import PERDURE, Breach, Judge
from app.cli.verify.report import Report, Row, show_broken, warn
from app.cli.verify.seen import Plan, Seen
from app.cli.verify.trap import Fault, Side, Target, Window
from app.cli.verify.trial import Trial
from app.tools.agent import Agent

MOST_TRIES = 3
SIDES: tuple[Side, Side] = ("before", "after")


@dataclass(frozen=True)
class Choice:
    """Which of all trials are made."""

    faults: tuple[Fault, ...] = ("kill",)
    stride: int = 1
    only: str | None = None

    def pick(self, windows: list[Window]) -> Iterator[Target]:
        everything = [
            Target(window, side, fault)
            for window in windows
            for fault in self.faults
            for side in SIDES
        ]
        chosen = [each for each in everything if self._wants(each)]
        yield from chosen[:: self.stride]

    def _wants(self, target: Target) -> bool:
        return self.only is None or fnmatch.fnmatch(str(target), f"*{self.only}*")


class Campaign:
    def __init__(
        self, plan: Plan, template: Template, agent: Agent, choice: Choice, jobs: int
    ) -> None:
        self._plan = plan
        self._template = template
        self._agent = agent
        self._choice = choice
        self._free = asyncio.Semaphore(jobs)
        self.report = Report(plan.agent, [])

    async def run(self) -> None:
        """What has been found stands in `report`, also when it is interrupted."""
        baseline = await self._try(None, 0)
        judge = Judge(self._agent, self._plan.scenario, baseline)
        self.report.add(0, self._row(judge, baseline), baseline)
        # Before it is asked some fifty times more.
        warn(baseline.in_earnest, Console(stderr=True))
        if not baseline.ended:
            return
        targets = list(self._choice.pick(baseline.windows))
        with Bar(len(targets)) as tick:

            async def one(number: int, target: Target) -> None:
                async with self._free:
                    seen = await self._insist(target, number)
                row = self._row(judge, seen)
                self.report.add(number, row, seen)
                tick.update(row)

            await asyncio.gather(*(one(*each) for each in enumerate(targets, 1)))

    async def _insist(self, target: Target, number: int) -> Seen:
        """No two runs are quite alike: what this one did not come to, the next one may."""
        for _ in range(MOST_TRIES - 1):
            seen = await self._try(target, number)
            if seen.was_struck:
                return seen
        return await self._try(target, number)

    async def _try(self, target: Target | None, number: int) -> Seen:
        with self._template.clone() as database:
            return await Trial(self._plan, database, target, number).run()

    def _row(self, judge: Judge, seen: Seen) -> Row:
        breaches = judge.judge(seen)
        if breaches:
            verdict = "BROKEN"
        elif seen.target is not None and not seen.was_struck:
            verdict = "UNDECIDED"
            why = f"{MOST_TRIES} runs never came to that window"
            breaches = [Breach("the window is reached", *PERDURE, why)]
        else:
            verdict = "OK"
        if verdict != "BROKEN" and seen.log is not None:
            seen.log.unlink(missing_ok=True)
        return Row(seen.target, verdict, tuple(breaches), seen.log, _states(seen))


def _states(seen: Seen) -> dict[str, str]:
    return {f"{row['tool']} {row['turn']}/{row['index']}": row["state"] for row in seen.calls}


class Bar:
    """A bar on a terminal, and nothing elsewhere."""

    def __init__(self, total: int) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        self._bar = Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True))
        self._task = self._bar.add_task("Trials", total=total)
        self._broken = 0

    def __enter__(self) -> "Bar":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def update(self, row: Row) -> None:
        """What is BROKEN is told at once; there may be an hour of trials to come."""
        if row.verdict == "BROKEN":
            self._broken += 1
            show_broken(row, self._bar.console)
        told = f"Trials ({self._broken} BROKEN)" if self._broken else "Trials"
        self._bar.update(self._task, advance=1, description=told)
