"""One process of the service under test, in a session of its own so that kill -9 takes it whole."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tests.support.environment import ROOT
from tests.support.forkserver import Forked, ForkServer
from tests.support.sampling import FULL

PERDURE = (sys.executable, "-m", "app.cli")
# The whole suite executes each process, as an operator does.
FORKS = sys.platform == "linux" and not FULL


class Process:
    """`perdure <command>` with its output in a file."""

    def __init__(
        self, command: str, env: dict[str, str], log: Path, program: Sequence[str] = PERDURE
    ) -> None:
        self.command = command
        self.log = log
        # Its other end closes when the tests are killed, and that ends the process too.
        lifeline, hold = os.pipe()
        self._hold: int | None = hold
        with log.open("ab") as output:
            start = _fork if FORKS and program is PERDURE else _execute
            self._popen = start(program, command, env, output.fileno(), lifeline)
        os.close(lifeline)

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def exit_code(self) -> int | None:
        return self._popen.poll()

    def kill9(self) -> None:
        """Kills the whole process group; its sockets are closed when this returns."""
        if self._hold is None:
            return  # its number may be another's by now
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._popen.wait(timeout=10)
        os.close(self._hold)
        self._hold = None

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


def _fork(
    _program: Sequence[str], command: str, env: dict[str, str], output: int, lifeline: int
) -> Forked:
    arguments = [command, *_lifeline(command, "{lifeline}")]
    return ForkServer.shared().start(arguments, env, output, lifeline)


def _execute(
    program: Sequence[str], command: str, env: dict[str, str], output: int, lifeline: int
) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [*program, command, *_lifeline(command, str(lifeline))],
        cwd=ROOT,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        pass_fds=[lifeline],
        start_new_session=True,
    )


def _lifeline(command: str, descriptor: str) -> list[str]:
    return ["--lifeline", descriptor] if command in ("api", "worker") else []


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
