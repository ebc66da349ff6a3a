"""A killed process takes its children along, and nothing outlives the tests."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.support.polling import eventually
from tests.support.processes import Process

PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print("child", child.pid, flush=True)
child.wait()
"""


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Process]:
    program = (sys.executable, "-c", PARENT)
    process = Process("parent", dict(os.environ), tmp_path / "log", program)
    yield process
    process.kill9()


async def child_of(process: Process) -> psutil.Process:
    async def probe() -> psutil.Process | None:
        words = process.text().split()
        return psutil.Process(int(words[1])) if len(words) == 2 else None

    return await eventually(probe, "the child was started")


async def gone(process: psutil.Process) -> bool:
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


async def test_kill9_takes_the_children_along(process: Process) -> None:
    child = await child_of(process)
    process.kill9()
    assert process.exit_code == -9
    await eventually(lambda: gone(child), "the child is gone")


async def test_a_frozen_process_goes_on_when_thawed(process: Process) -> None:
    child = await child_of(process)

    async def has(status: str) -> bool:
        return child.status() == status

    process.freeze()
    await eventually(lambda: has(psutil.STATUS_STOPPED), "frozen")
    process.thaw()
    await eventually(lambda: has(psutil.STATUS_SLEEPING), "thawed")


async def test_the_log_is_kept(process: Process) -> None:
    child = await child_of(process)
    assert process.tail() == f"child {child.pid}"
    process.kill9()
    process.kill9()
    assert process.tail() == f"child {child.pid}"
