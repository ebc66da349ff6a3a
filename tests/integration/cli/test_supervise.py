"""Children of `perdure dev`, as real processes."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from app.cli.dev import free_port
from app.cli.supervise import Child, Family, Program
from app.errors import ConfigurationError

ROOT = Path(__file__).parents[3]
ENVIRONMENT = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
PARENT = """
import sys, time
from app.cli.supervise import Family, Program
family = Family(print)
for port in sys.argv[1:]:
    child = family.add(Program("model", ["simulate", "model", port], {"PYTHONPATH": "."}))
    print(child.pid, flush=True)
time.sleep(60)
"""


@pytest.fixture
def news() -> list[str]:
    return []


@pytest.fixture
def family(news: list[str]) -> Iterator[Family]:
    family = Family(news.append)
    yield family
    family.kill()
    family.stop(5)


def start_model(family: Family) -> Child:
    arguments = ["simulate", "model", str(free_port())]
    return family.add(Program("model", arguments, ENVIRONMENT))


def revive_until_news(family: Family, news: list[str], count: int) -> None:
    deadline = time.monotonic() + 20
    while len(news) < count:
        assert time.monotonic() < deadline, news
        family.revive()
        time.sleep(0.02)


def test_a_killed_child_is_started_again_each_time(family: Family, news: list[str]) -> None:
    model = start_model(family)
    neighbour = start_model(family)
    bystander = neighbour.pid

    for count in (1, 2):
        killed = model.pid
        os.kill(killed, signal.SIGKILL)
        revive_until_news(family, news, count)

        assert model.pid != killed
        assert news[-1] == f"model {killed} died of SIGKILL; started again as {model.pid}"
        assert psutil.pid_exists(model.pid)
    assert neighbour.pid == bystander


def test_a_child_that_refuses_its_first_start_is_not_tried_again(family: Family) -> None:
    broken = {**ENVIRONMENT, "PERDURE_PROT": "1"}
    family.add(Program("api", ["api"], broken))

    with pytest.raises(ConfigurationError, match="api ended at its start with exit code 1"):
        revive_until_news(family, [], 1)


def test_stopping_ends_every_child(family: Family) -> None:
    children = [start_model(family), start_model(family)]
    processes = [psutil.Process(child.pid) for child in children]

    family.stop(10)

    assert not any(process.is_running() for process in processes)


def test_a_child_that_does_not_stop_in_time_is_killed(family: Family) -> None:
    model = start_model(family)
    frozen = psutil.Process(model.pid)
    frozen.suspend()

    family.stop(0.2)

    assert not frozen.is_running()


def test_children_end_with_a_killed_parent() -> None:
    ports = [str(free_port()) for _ in range(2)]
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, *ports], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        children = [psutil.Process(int(parent.stdout.readline())) for _ in ports]

        parent.kill()

    gone, alive = psutil.wait_procs(children, timeout=20)
    assert (len(gone), alive) == (2, [])
