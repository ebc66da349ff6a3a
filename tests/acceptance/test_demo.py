"""`perdure demo` as a person runs it; test_demo_checks.py shows that its own checks can fail."""

import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.support.sampling import FULL

ROOT = Path(__file__).parents[2]
# Of another deployment: the demo must not touch it.
FOREIGN = {
    "PERDURE_DATABASE_URL": "postgresql://nobody@127.0.0.1:9/nothing",
    "PERDURE_PORT": "1",
    "ANTHROPIC_API_KEY": "a real key",
    "HTTP_PROXY": "http://127.0.0.1:9",
    "NO_COLOR": "",
}
MARK = "MARK_OF_THE_DEMO"


class Demo:
    """A demo under way, and all that it starts: its environment goes down to each of them."""

    def __init__(self, directory: Path) -> None:
        self.output = ""
        self.mark = secrets.token_hex()
        self.started = subprocess.Popen(
            [sys.executable, "-P", "-m", "app.cli", "demo"],
            cwd=directory,
            env=os.environ | FOREIGN | {"PYTHONPATH": str(ROOT), MARK: self.mark},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def read(self, until: str | None = None) -> None:
        """Up to the first line that begins with `until`, else to the end."""
        assert self.started.stdout is not None
        for line in self.started.stdout:
            self.output += line
            if until is not None and line.strip().startswith(until):
                return
        assert until is None, self.output

    def end(self) -> int:
        self.read()
        return self.started.wait()

    def processes(self) -> list[psutil.Process]:
        return [each for each in psutil.process_iter() if self._is_mine(each)]

    def left(self) -> list[psutil.Process]:
        _, alive = psutil.wait_procs(self.processes(), timeout=20)
        return alive

    def _is_mine(self, process: psutil.Process) -> bool:
        try:
            return process.environ().get(MARK) == self.mark
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            return False


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[], Demo]]:
    demos: list[Demo] = []

    def start() -> Demo:
        demos.append(Demo(tmp_path))
        return demos[-1]

    yield start
    for demo in demos:
        if demo.started.poll() is None:
            demo.started.send_signal(signal.SIGINT)
            demo.end()
        assert demo.started.stdout is not None
        demo.started.stdout.close()


@pytest.mark.timeout(600)
def test_the_demo_ends_by_itself_well_also_after_one_that_was_killed(
    start: Callable[[], Demo], tmp_path: Path
) -> None:
    killed = start()
    killed.read(until="202 run_")
    killed.started.kill()
    killed.end()

    demo = start()
    assert demo.end() == 0, demo.output
    assert killed.left() == demo.left() == []
    assert demo.output.count("\n  kill -9 ") == 3
    assert demo.output.count("call.outcome_unknown") == 1
    assert demo.output.count("wait.resolved") == 1
    assert "FAIL" not in demo.output
    assert "\x1b" not in demo.output
    assert not os.path.lexists(tmp_path / ".perdure" / "demo")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kills", [1, 3] if FULL else [1])
def test_an_interrupted_demo_leaves_nothing_running(
    start: Callable[[], Demo], tmp_path: Path, kills: int
) -> None:
    demo = start()
    demo.read(until="202 run_")
    assert len(demo.processes()) >= 6
    for _ in range(kills):
        demo.read(until="kill -9")
    demo.started.send_signal(signal.SIGINT)
    assert demo.end() == 130, demo.output
    assert demo.left() == []
    assert not os.path.lexists(tmp_path / ".perdure" / "demo")
