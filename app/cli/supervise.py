"""Child processes of `perdure`: started, restarted when they die, stopped in reverse order."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from app.errors import ConfigurationError

# One that ends by itself this soon after its first start is misconfigured, not unlucky.
PROBATION_SECONDS = 15.0
FIRST_BACKOFF_SECONDS = 0.2
LONGEST_BACKOFF_SECONDS = 5.0


@dataclass(frozen=True)
class Program:
    """A subcommand of `perdure` to keep running."""

    name: str
    arguments: Sequence[str]
    environment: Mapping[str, str]


class Child:
    """One program and the process that runs it now."""

    def __init__(self, program: Program, lifeline: int) -> None:
        self.program = program
        self._lifeline = lifeline
        self._starts = 0
        self._backoff = FIRST_BACKOFF_SECONDS
        self._due: float | None = None
        self.start()

    def start(self) -> None:
        line = str(self._lifeline)
        self._process = subprocess.Popen(
            command(*self.program.arguments, "--lifeline", line),
            env=self.program.environment,
            stdin=subprocess.DEVNULL,
            pass_fds=[self._lifeline],
            process_group=0,
        )
        self._starts += 1
        self._started_at = time.monotonic()
        self._due = None

    @property
    def pid(self) -> int:
        return self._process.pid

    def revive(self) -> str | None:
        """Start again a process that ended, after a pause; tells what happened, if anything did."""
        code = self._process.poll()
        if code is None:
            return None
        now = time.monotonic()
        if self._due is None:
            self._due = now + self._pause(code, now - self._started_at)
            return None
        if now < self._due:
            return None
        ended = self.pid
        self.start()
        return f"{self.program.name} {ended} {_describe(code)}; started again as {self.pid}"

    def _pause(self, code: int, lived: float) -> float:
        if code > 0 and self._starts == 1 and lived < PROBATION_SECONDS:
            raise ConfigurationError(
                f"{self.program.name} ended at its start with exit code {code}; see above."
            )
        if lived > LONGEST_BACKOFF_SECONDS:
            self._backoff = FIRST_BACKOFF_SECONDS
        pause = self._backoff
        self._backoff = min(2 * pause, LONGEST_BACKOFF_SECONDS)
        return pause

    def stop(self, grace: float) -> None:
        self._process.terminate()
        try:
            self._process.wait(grace)
        except subprocess.TimeoutExpired:
            self.kill()
            self._process.wait()

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)


class Family:
    """Children that live and end with this process, however it ends."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._read_end, self._write_end = os.pipe()
        self.children: list[Child] = []

    def add(self, program: Program) -> Child:
        child = Child(program, self._read_end)
        self.children.append(child)
        return child

    def revive(self) -> None:
        for child in self.children:
            if news := child.revive():
                self._tell(news)

    def stop(self, grace: float) -> None:
        """The last started first: a draining worker still needs the parts it was given."""
        for child in reversed(self.children):
            child.stop(grace)

    def kill(self) -> None:
        for child in self.children:
            child.kill()


def command(*arguments: str) -> list[str]:
    # -P: a package `app` in the working directory must not take our place.
    return [sys.executable, "-P", "-m", "app.cli", *arguments]


def _describe(code: int) -> str:
    return f"died of {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
