"""Starts workers quickly: a process that has imported Perdure already, and forks.

A worker made here is a process of its own in a session of its own, whose agents are imported after
the fork. It speaks lines of JSON on its standard streams.
"""

import contextlib
import gc
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, Self

MAIN = "from app.cli.verify.nursery import main; main()"


class Nursery:
    """The starter's side. Its end ends all that it has started."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", MAIN],
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._turn = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()

    def start(self, arguments: Sequence[str], environment: Mapping[str, str], log: Path) -> int:
        """Its process group. Its number is its own until its end was seen, or it was reaped."""
        return self._ask(arguments=list(arguments), environment=dict(environment), log=str(log))

    def reap(self, pid: int) -> int:
        """Waits for its end; the exit code, negative for a signal."""
        return self._ask(reap=pid)

    def has_ended(self, pid: int) -> bool:
        return bool(self._ask(look=pid))

    def _ask(self, **request: Any) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._turn:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            return int(self._process.stdout.readline())


class _Children:
    def __init__(self) -> None:
        self._lifelines: dict[int, int] = {}
        self._ended: dict[int, int] = {}

    def start(self, arguments: list[str], environment: dict[str, str], log: str) -> int:
        lifeline, hold = os.pipe()
        leads, told = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.setsid()
            for each in (leads, told, hold, *self._lifelines.values()):
                os.close(each)
            _become(arguments, environment, log, lifeline)
        os.close(lifeline)
        os.close(told)
        # Until it leads its group, a signal to that group would miss it.
        os.read(leads, 1)
        os.close(leads)
        self._lifelines[pid] = hold
        return pid

    def reap(self, pid: int) -> int:
        status = self._ended.pop(pid, None)
        if status is None:
            _, status = os.waitpid(pid, 0)
        os.close(self._lifelines.pop(pid))
        return os.waitstatus_to_exitcode(status)

    def look(self, pid: int) -> int:
        if pid not in self._ended:
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                self._ended[pid] = status
        return int(pid in self._ended)

    def end(self) -> None:
        for pid in self._lifelines.keys() - self._ended.keys():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)


def _become(arguments: list[str], environment: dict[str, str], log: str, lifeline: int) -> NoReturn:
    code = 0
    try:
        output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for descriptor, place in ((nothing, 0), (output, 1), (output, 2)):
            os.dup2(descriptor, place)
        os.environ.clear()
        os.environ.update(environment)
        keeps = ["--lifeline", str(lifeline)] if arguments[0] in ("api", "worker") else []
        sys.argv = ["perdure", *arguments, *keeps]
        from app.cli.verify import witness

        witness.main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    except BaseException:  # noqa: BLE001 - it ends this process, and no other
        sys.excepthook(*sys.exc_info())
        code = 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def main() -> None:
    import app.cli.verify.witness
    import app.main
    import app.worker  # noqa: F401 - what takes long to import, once

    gc.freeze()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    children = _Children()
    for line in sys.stdin:
        match json.loads(line):
            case {"reap": pid}:
                answer = children.reap(pid)
            case {"look": pid}:
                answer = children.look(pid)
            case request:
                answer = children.start(**request)
        try:
            sys.stdout.write(f"{answer}\n")
            sys.stdout.flush()
        except BrokenPipeError:
            break
    children.end()
    os._exit(0)
