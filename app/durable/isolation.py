"""Runs that workers have died of go on in a process that takes nobody else with it."""

import asyncio
import logging
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from app.store import workers
from app.store.db import Database

log = logging.getLogger(__name__)

# -P: a package `app` in the working directory must not take our place.
COMMAND = (sys.executable, "-P", "-m", "app.cli", "worker", "--isolated", "--lifeline")

ENDING_SECONDS = 2.0


class Isolation:
    """A child process of this worker, there as long as it is needed."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._leaving = False
        # Its end in this process is closed by whatever ends this process, and that ends the child.
        self._lifeline, self._hold = os.pipe()

    async def look(self, database: Database) -> None:
        """Starts it when a leg waits for it. It ends by itself."""
        if self._leaving or (self._process is not None and self._process.poll() is None):
            return
        async with database.connection() as connection:
            if not await workers.are_suspects_queued(connection):
                return
        await asyncio.to_thread(self._start)

    def _start(self) -> None:
        self._process = subprocess.Popen(
            [*COMMAND, str(self._lifeline)],
            stdin=subprocess.DEVNULL,
            pass_fds=[self._lifeline],
            # A tool that kills its process group is to kill this one alone.
            process_group=0,
        )
        log.warning("process %s carries out what workers have died of", self._process.pid)

    def leave(self) -> None:
        """Tells it to hand over what it has in hand."""
        self._leaving = True
        if self._process is not None:
            self._process.terminate()

    def end(self) -> None:
        """Blocks for a moment; it has had as long as this worker."""
        if self._process is None:
            return
        try:
            self._process.wait(ENDING_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()


def be_the_first_to_go() -> None:
    """Where memory runs out, the kernel is to take this process and not its neighbours."""
    with suppress(OSError):  # only Linux has this
        Path("/proc/self/oom_score_adj").write_text("1000")
