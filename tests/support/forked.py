"""Processes of the service, forked from one that has imported it already.

Importing takes seconds of CPU each time, which most of the suite would be spent on.
"""

import atexit
import functools
import os
import subprocess
import time
from pathlib import Path

from app.cli.verify.nursery import Nursery

LOOK_SECONDS = 0.01


@functools.cache
def nursery() -> Nursery:
    """One for each process of the test runner, there until that ends."""
    # Unbuffered, as a process is that is executed with this in its environment.
    made = Nursery({**os.environ, "PYTHONUNBUFFERED": "1"})
    atexit.register(made.__exit__)
    return made


class Forked:
    """Like a `subprocess.Popen`, as far as the tests need one."""

    def __init__(self, command: str, env: dict[str, str], log: Path) -> None:
        self.pid = nursery().start([command], env, log)
        self._code: int | None = None

    def poll(self) -> int | None:
        if self._code is None and nursery().has_ended(self.pid):
            self._code = nursery().reap(self.pid)
        return self._code

    def wait(self, timeout: float) -> int:
        deadline = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(str(self.pid), timeout)
            time.sleep(LOOK_SECONDS)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)
