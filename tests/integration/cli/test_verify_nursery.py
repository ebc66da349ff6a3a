"""The process that forks workers."""

import os
import signal
from pathlib import Path

import pytest

from app.cli.verify.nursery import Nursery

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="it forks")


def test_what_was_started_leads_its_group_at_once_so_that_a_kill_reaches_it(tmp_path: Path) -> None:
    """A worker that is killed in the moment of its start."""
    with Nursery(os.environ) as nursery:
        for number in range(20):
            pid = nursery.start(["worker"], dict(os.environ), tmp_path / f"{number}.log")
            os.killpg(pid, signal.SIGKILL)
            assert nursery.reap(pid) == -signal.SIGKILL
