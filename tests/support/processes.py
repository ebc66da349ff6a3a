"""One process of the service under test, in a session of its own so that kill -9 takes it whole."""

import os
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tests.support.environment import ROOT
from tests.support.forked import Forked
from tests.support.sampling import FULL

PERDURE = (sys.executable, "-m", "app.cli")
# The whole suite executes each process, as an operator does.
FORKS = sys.platform == "linux" and not FULL
# A process that has been forked never looks at these.
AT_START = ("LD_PRELOAD", "PYTHONPATH")
FIRST_PORT, PORTS = 15_000, 15_000


class Process:
    """`perdure <command>` with its output in a file."""

    def __init__(
        self, command: str, env: dict[str, str], log: Path, program: Sequence[str] = PERDURE
    ) -> None:
        self.command = command
        self.log = log
        # Its other end closes when the tests are killed, and that ends the process too.
        lifeline, self._hold = os.pipe()
        forks = program is PERDURE and _may_fork(env)
        self._popen = (
            Forked(command, env, log) if forks else _execute(program, command, env, log, lifeline)
        )
        os.close(lifeline)

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def exit_code(self) -> int | None:
        return self._popen.poll()

    def kill9(self) -> None:
        """Kills the whole process group; its sockets are closed when this returns."""
        if self._hold < 0:
            return  # its number may be another's by now
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._popen.wait(timeout=10)
        os.close(self._hold)
        self._hold = -1

    def freeze(self) -> None:
        os.killpg(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.killpg(self.pid, signal.SIGCONT)

    def terminate(self) -> None:
        self._popen.send_signal(signal.SIGTERM)

    def wait(self, timeout: float = 30.0) -> int:
        return self._popen.wait(timeout)

    def text(self) -> str:
        """All that it logged."""
        return self.log.read_text(errors="replace")

    def tail(self, lines: int = 60) -> str:
        return "\n".join(self.text().splitlines()[-lines:])


def _may_fork(env: dict[str, str]) -> bool:
    return FORKS and all(env.get(name) == os.environ.get(name) for name in AT_START)


def _execute(
    program: Sequence[str], command: str, env: dict[str, str], log: Path, lifeline: int
) -> "subprocess.Popen[bytes]":
    with log.open("ab") as output:
        return subprocess.Popen(
            [*program, command, *_lifeline(command, lifeline)],
            cwd=ROOT,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            pass_fds=[lifeline],
            start_new_session=True,
        )


def _lifeline(command: str, descriptor: int) -> list[str]:
    return ["--lifeline", str(descriptor)] if command in ("api", "worker") else []


def free_port() -> int:
    """None of those that systems give to outgoing connections: a killed server finds it again."""
    while True:
        port = FIRST_PORT + secrets.randbelow(PORTS)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
