"""`perdure dev` as a user meets it: started, started twice, killed, stopped."""

import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import httpx
import psutil
import psycopg
import pytest

from app.cli.dev import free_port
from app.cli.embedded import Cluster
from app.client import Perdure

ROOT = Path(__file__).parents[3]
COMMAND = [sys.executable, "-P", "-m", "app.cli"]
# Long enough for a machine that runs other tests beside this one.
PATIENCE_SECONDS = 60


def make_environment(port: int) -> dict[str, str]:
    inherited = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    return inherited | {
        "PYTHONPATH": str(ROOT),
        "PYTHONUNBUFFERED": "1",
        "PERDURE_PORT": str(port),
        "PERDURE_GRACE_SECONDS": "1",
        "PERDURE_LOG_LEVEL": "WARNING",
    }


@pytest.fixture
def home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)
        Cluster(Path(name) / ".perdure" / "postgres").destroy()


class Dev:
    """One `perdure dev`, read line by line."""

    def __init__(self, home: Path, environment: Mapping[str, str]) -> None:
        self.lines: list[str] = []
        self.process = subprocess.Popen(
            [*COMMAND, "dev"], cwd=home, env=environment, stdout=subprocess.PIPE, text=True
        )

    def read_until(self, text: str) -> str:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)
            if text in line:
                return line
        raise AssertionError(f"{text!r} was not said: {self.lines}")

    def read_children(self) -> dict[str, psutil.Process]:
        said = self.read_until("Processes: ").removeprefix("Processes: ").split(", ")
        return {name: psutil.Process(int(pid)) for name, pid in map(str.split, said)}


@pytest.fixture
def dev(home: Path) -> Iterator[Dev]:
    dev = Dev(home, make_environment(free_port()))
    with dev.process:
        yield dev
        dev.process.kill()


def start_another(home: Path, port: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, "dev"],
        cwd=home,
        env=make_environment(port),
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


def test_it_runs_as_processes_that_can_be_killed_and_stops_cleanly(dev: Dev, home: Path) -> None:
    children = dev.read_children()
    ready = dev.read_until("Ready on").split()[2].rstrip(".")
    cluster = Cluster(home / ".perdure" / "postgres")
    assert cluster.pid is not None
    assert children.keys() == {"model", "provider", "api", "worker"}
    assert httpx.get(f"{ready}/health/ready", trust_env=False).status_code == 200
    assert f"{ready}/v1/runs" in dev.read_until("curl")
    with Perdure(ready) as perdure:
        assert [worker.pid for worker in perdure.workers.list()] == [children["worker"].pid]
    (url,) = [shlex.split(line)[0] for line in dev.lines if "PERDURE_DATABASE_URL=" in line]
    with psycopg.connect(url.partition("=")[2]) as connection:
        assert connection.execute("select 1 from perdure.workers").fetchone() == (1,)

    children["worker"].kill()
    assert f"worker {children['worker'].pid} died of SIGKILL" in dev.read_until("started again")

    dev.process.send_signal(signal.SIGTERM)
    assert dev.process.wait(PATIENCE_SECONDS) == 0
    assert not any(child.is_running() for child in children.values())
    assert cluster.pid is None


def test_a_second_one_says_that_the_directory_or_the_port_is_taken(dev: Dev, home: Path) -> None:
    port = int(dev.read_until("Ready on").split()[2].rstrip(".").rsplit(":", 1)[1])

    same_directory = start_another(home, free_port())
    (home / "elsewhere").mkdir()
    same_port = start_another(home / "elsewhere", port)

    assert same_directory.returncode == same_port.returncode == 1
    assert f"already running in this directory, as process {dev.process.pid}" in (
        same_directory.stderr
    )
    assert f"cannot listen on 127.0.0.1, port {port}" in same_port.stderr
    assert f"PERDURE_PORT={port + 1}" in same_port.stderr
    assert "Traceback" not in same_directory.stderr + same_port.stderr


def test_after_a_kill_its_children_end_and_the_next_one_finds_the_database(
    dev: Dev, home: Path
) -> None:
    children = dev.read_children()
    server = Cluster(home / ".perdure" / "postgres").pid

    dev.process.kill()
    _, alive = psutil.wait_procs(list(children.values()), timeout=PATIENCE_SECONDS)
    assert alive == []
    assert Cluster(home / ".perdure" / "postgres").pid == server

    again = Dev(home, make_environment(free_port()))
    with again.process:
        again.read_until("Ready on")
        assert f"Postgres {server}" in again.lines[0]
        again.process.send_signal(signal.SIGINT)
        assert again.process.wait(PATIENCE_SECONDS) == 0


def test_agents_that_cannot_be_loaded_end_it_with_the_reason(home: Path) -> None:
    (home / "broken.py").write_text("import nothing_like_this\n")
    done = subprocess.run(
        [*COMMAND, "dev"],
        cwd=home,
        env=make_environment(free_port()) | {"PERDURE_AGENTS": "broken.py"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )

    assert done.returncode == 1
    assert "nothing_like_this" in done.stderr
    assert "Traceback" not in done.stderr
    assert Cluster(home / ".perdure" / "postgres").pid is None
