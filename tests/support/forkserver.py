"""Starts processes of the service by forking an interpreter that has imported it already.

Importing takes seconds of CPU each time, which most of the suite would be spent on. Otherwise such
a process is like one that was executed: its own session, environment, output and exit.
"""

import array
import atexit
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LONGEST_ORDER = 1 << 20


class Forked:
    """A process that the server started; like a `subprocess.Popen` as far as it is needed."""

    def __init__(self, pid: int, obituary: int) -> None:
        self.pid = pid
        self._obituary: int | None = obituary
        self._code: int | None = None

    def poll(self) -> int | None:
        return self._code if self._obituary is None or not self._is_over(0) else self._bury()

    def wait(self, timeout: float | None = None) -> int:
        if self._code is not None:
            return self._code
        if not self._is_over(timeout):
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
        return self._bury()

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def _is_over(self, timeout: float | None) -> bool:
        assert self._obituary is not None
        return bool(select.select([self._obituary], [], [], timeout)[0])

    def _bury(self) -> int:
        assert self._obituary is not None
        said = os.read(self._obituary, 64)
        os.close(self._obituary)
        self._obituary = None
        if not said:
            raise RuntimeError(f"the fork server ended before {self.pid} did")
        self._code = int(said)
        return self._code


class ForkServer:
    """The tests' end. One for each process of the test runner, there until that ends."""

    _only: "ForkServer | None" = None

    def __init__(self) -> None:
        self._orders, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.forkserver", str(theirs.fileno())],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
        )
        theirs.close()
        atexit.register(self._end)

    @classmethod
    def shared(cls) -> "ForkServer":
        if cls._only is None:
            cls._only = cls()
        return cls._only

    def start(
        self, arguments: Sequence[str], env: Mapping[str, str], output: int, lifeline: int
    ) -> Forked:
        """Runs `perdure` with these arguments; "{lifeline}" in them becomes its descriptor."""
        reading, writing = os.pipe()
        order = json.dumps({"arguments": list(arguments), "env": dict(env)}).encode()
        socket.send_fds(self._orders, [order], [output, lifeline, writing])
        os.close(writing)
        return Forked(int(self._orders.recv(64)), reading)

    def _end(self) -> None:
        self._orders.close()
        self._process.wait()


@dataclass
class Server:
    """The server's end: starts what it is told to, and tells how each ended."""

    orders: socket.socket
    obituaries: dict[int, int] = field(default_factory=dict)

    def serve(self) -> dict[str, Any]:
        """Returns in each child, with its order; ends the server once nobody gives orders."""
        wake, self.waker = os.pipe()
        os.set_blocking(self.waker, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.set_wakeup_fd(self.waker)
        while True:
            ready, _, _ = select.select([self.orders.fileno(), wake], [], [])
            if wake in ready:
                os.read(wake, 4096)
                self._reap()
            if self.orders.fileno() in ready:
                order = self._fork()
                if order is not None:
                    os.close(wake)
                    return order

    def _fork(self) -> dict[str, Any] | None:
        said, descriptors, _, _ = socket.recv_fds(self.orders, LONGEST_ORDER, 3)
        if not said:
            os._exit(0)
        output, lifeline, obituary = array.array("i", descriptors)
        pid = os.fork()
        if pid == 0:
            self._forget(obituary)
            os.setsid()
            for standard in (1, 2):
                os.dup2(output, standard)
            os.close(output)
            return {**json.loads(said), "lifeline": lifeline}
        os.close(output)
        os.close(lifeline)
        self.obituaries[pid] = obituary
        self.orders.send(str(pid).encode())
        return None

    def _forget(self, *descriptors: int) -> None:
        """What is the server's, in a child."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self.orders.close()
        for descriptor in (self.waker, *descriptors, *self.obituaries.values()):
            os.close(descriptor)

    def _reap(self) -> None:
        while self.obituaries:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            obituary = self.obituaries.pop(pid)
            os.write(obituary, str(os.waitstatus_to_exitcode(status)).encode())
            os.close(obituary)


def _become(order: dict[str, Any]) -> NoReturn:
    os.environ.clear()
    os.environ.update(order["env"])
    time.tzset()
    arguments = [str(each).format(lifeline=order["lifeline"]) for each in order["arguments"]]
    sys.argv = ["perdure", *arguments]
    from app.cli import main

    main()
    sys.exit(0)


if __name__ == "__main__":
    import app.main
    import app.worker  # noqa: F401 - so that the children need not

    gc.freeze()
    _become(Server(socket.socket(fileno=int(sys.argv[1]))).serve())
