"""Runs that workers have died of go on in a process that takes nobody else with it."""

import asyncio
import logging
import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from math import inf
from pathlib import Path

from app.store import workers
from app.store.db import Database

log = logging.getLogger(__name__)

# -P: a package `app` in the working directory must not take our place.
COMMAND = (sys.executable, "-P", "-m", "app.cli", "worker", "--isolated", "--lifeline")

# Of the time that a child needs beside its runs.
ENDING_SECONDS = 3.0
# One that ends sooner died of what it carried, or cannot start; then each try waits longer.
EARLY_SECONDS = 15.0
LONGEST_PAUSE = 30.0


class Isolation:
    """A child process of this worker, there as long as it is needed."""

    def __init__(self, worker: str) -> None:
        self._worker = worker
        self._process: subprocess.Popen[bytes] | None = None
        # Starting it and telling it to leave must not pass each other by.
        self._turn = threading.Lock()
        self._started_at = self._due = -inf
        self._pause = 0.5
        self._leaves_by: float | None = None
        # Its end in this process is closed by whatever ends this process, and that ends the child.
        self._lifeline, self._hold = os.pipe()

    async def look(self, database: Database) -> None:
        """Starts it when a leg waits for it. It ends by itself."""
        if not self._may_start():
            return
        async with database.connection() as connection:
            if not await workers.has_to_isolate(connection, self._worker):
                return
        await asyncio.to_thread(self._start)

    def _may_start(self) -> bool:
        now = time.monotonic()
        if self._process is not None:
            if self._process.poll() is None:
                return False
            early = now - self._started_at < EARLY_SECONDS
            self._pause = min(2 * self._pause, LONGEST_PAUSE) if early else 0.5
            self._due = now + self._pause
            self._process = None
        return now >= self._due

    def _start(self) -> None:
        with self._turn:
            if self._leaves_by is not None:
                return
            self._started_at = time.monotonic()
            self._process = subprocess.Popen(
                [*COMMAND, str(self._lifeline)],
                stdin=subprocess.DEVNULL,
                pass_fds=[self._lifeline],
                # A tool that kills its process group is to kill this one alone.
                process_group=0,
            )
        log.warning("process %s carries out what workers have died of", self._process.pid)

    def leave(self, seconds: float) -> None:
        """Tells it to hand over what it has in hand within so long."""
        with self._turn:
            self._leaves_by = time.monotonic() + seconds
            if self._process is not None:
                self._process.terminate()

    def end(self) -> None:
        """Blocks until it has ended or its time is up; the end of this process would end it."""
        # Meanwhile the other thread forgets one that has ended.
        process = self._process
        if process is None or self._leaves_by is None:
            return
        try:
            process.wait(max(self._leaves_by - time.monotonic(), 0.0) + ENDING_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()


def be_the_first_to_go() -> None:
    """Where memory runs out, the kernel is to take this process and not its neighbours."""
    with suppress(OSError):  # only Linux has this
        Path("/proc/self/oom_score_adj").write_text("1000")
