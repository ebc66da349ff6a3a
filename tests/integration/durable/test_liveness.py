"""Proof of death: only what is certain counts."""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from app.durable import liveness
from app.durable.liveness import LINUX, Identity, is_gone, own_identity

ME = own_identity()


def row(identity: Identity, death: str | None = None) -> dict[str, Any]:
    return asdict(identity) | {"death": death}


def identity_of(process: subprocess.Popen[bytes]) -> Identity:
    started = liveness._started(process.pid)
    assert started is not None
    return replace(ME, pid=process.pid, process_started=started)


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


def test_this_process_is_not_gone() -> None:
    assert not is_gone(row(ME), own_identity())
    assert ME.process_started
    assert ME.boot_id


def test_a_living_process_is_not_gone(child: subprocess.Popen[bytes]) -> None:
    assert not is_gone(row(identity_of(child)), ME)


def test_a_killed_process_is_gone(child: subprocess.Popen[bytes]) -> None:
    killed = identity_of(child)
    child.kill()
    child.wait(timeout=10)

    assert is_gone(row(killed), ME)


@pytest.mark.skipif(not LINUX, reason="ps tells the start time of a zombie as well")
def test_a_zombie_is_gone(child: subprocess.Popen[bytes]) -> None:
    """It can act no more, though its parent has not asked for it yet."""
    killed = identity_of(child)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)

    assert is_gone(row(killed), ME)


def test_a_process_number_that_is_anothers_now_is_no_sign_of_life() -> None:
    assert is_gone(row(replace(ME, process_started="1")), ME)


@pytest.mark.parametrize("name", ["boot_id", "pid_namespace"])
def test_nothing_is_proved_about_a_process_elsewhere(name: str) -> None:
    elsewhere = replace(ME, **{name: "another"}, process_started="1", pid=2**30)

    assert not is_gone(row(elsewhere), ME)


def test_nothing_is_proved_where_the_boot_is_unknown() -> None:
    nowhere = replace(ME, boot_id="", process_started="1")

    assert not is_gone(row(nowhere), replace(ME, boot_id=""))


@pytest.mark.parametrize(
    ("death", "gone"), [("exited", True), ("lease_lost", False), (None, False)]
)
def test_only_a_worker_that_said_so_is_believed_to_have_exited(
    death: str | None, gone: bool
) -> None:
    assert is_gone(row(replace(ME, boot_id="another"), death), ME) is gone


@pytest.mark.skipif(not LINUX, reason="/proc")
def test_a_command_with_a_strange_name_is_read_right(tmp_path: Path) -> None:
    strange = tmp_path / "a) S 1 (b"
    strange.symlink_to(sys.executable)
    command = [str(strange), "-c", "import sys; print(flush=True); sys.stdin.read()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert str(liveness._started(process.pid)).isdigit()
        assert not is_gone(row(identity_of(process)), ME)
        process.kill()
