"""The API and the worker of one trial: started, killed, and started again when they end."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping
from pathlib import Path

from app.cli.verify.nursery import Nursery
from app.cli.verify.trap import Victim

LOOK_SECONDS = 0.2
# One that ends by itself more often than this is not unlucky, but broken.
MOST_STARTS = 8


class Process:
    """In a session of its own, so that kill -9 takes it whole."""

    def __init__(
        self, part: Victim, url: str, nursery: Nursery, environment: Mapping[str, str], log: Path
    ) -> None:
        self.part: Victim = part
        self.url = url
        self._was_killed = False
        self._is_gone = False
        self._nursery = nursery
        self._pid = nursery.start([part], environment, log)

    @property
    def has_died(self) -> bool:
        """By itself."""
        if not self._was_killed and not self._is_gone:
            self._is_gone = self._nursery.has_ended(self._pid)
        return self._is_gone

    def kill(self) -> None:
        if self._is_gone:
            return  # its number may be another's by now
        self._was_killed = True
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._pid, signal.SIGKILL)

    def close(self) -> None:
        self.kill()
        self._nursery.reap(self._pid)


class Processes:
    """What runs now is the last of each part; those before have ended and are not reaped yet."""

    def __init__(self, nursery: Nursery, environment: Mapping[str, str], log: Path) -> None:
        self._nursery = nursery
        self._environment = environment
        self._log = log
        self._started: list[Process] = []

    def start(self, part: Victim, url: str) -> None:
        """`url`: of its database."""
        settings = {**self._environment, "PERDURE_DATABASE_URL": url}
        self._started.append(Process(part, url, self._nursery, settings, self._log))

    def kill(self, part: Victim) -> None:
        self._now()[part].kill()

    def kill_all(self) -> None:
        for process in self._now().values():
            process.kill()

    async def supervise(self) -> None:
        """As any deployment does: a process that ends by itself is started again."""
        while len(self._started) < MOST_STARTS:
            await asyncio.sleep(LOOK_SECONDS)
            for part, process in self._now().items():
                if process.has_died:
                    self.start(part, process.url)

    def close(self) -> None:
        for process in self._started:
            process.close()

    def _now(self) -> dict[Victim, Process]:
        return {process.part: process for process in self._started}
