"""The embedded Postgres where a plain start would fail: long paths, stale pid files, root."""

import importlib.metadata
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from app.cli import account
from app.cli.embedded import Cluster
from app.errors import ConfigurationError
from tests.integration.embedded.processes import ROOT, query

only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root lends the database an account")


@pytest.mark.parametrize("name", ["x" * 120, "it's, größe 50%"])
def test_a_path_that_no_socket_may_have_works(open_directory: Path, name: str) -> None:
    directory = open_directory / name / "postgres"
    directory.parent.mkdir()
    embedded = Cluster(directory)
    try:
        url = embedded.start()
        sockets = Path(str(query(url, "SHOW unix_socket_directories")))
        assert sockets != directory
        assert sockets.stat().st_mode & 0o077 == 0

        embedded.stop()
        assert not sockets.exists()
        assert query(embedded.start(), "SELECT 1") == 1
    finally:
        embedded.destroy()


def test_a_directory_moved_to_a_shorter_path_is_found_again(open_directory: Path) -> None:
    long = Cluster(open_directory / ("x" * 120))
    query(long.start(), "CREATE TABLE note AS SELECT 'kept' AS text")
    long.stop()
    moved = Cluster(open_directory / "short")
    long.directory.rename(moved.directory)
    try:
        assert query(moved.start(), "SELECT text FROM note") == "kept"
    finally:
        moved.destroy()


def write_pid_file(embedded: Cluster, pid: int) -> None:
    data = embedded.directory.resolve()
    lines = [str(pid), str(data), "1", "5432", str(data), "", "1 1", "ready   "]
    for name in ("postmaster.pid", ".s.PGSQL.5432.lock"):
        (data / name).write_text("\n".join(lines) + "\n")


def test_a_pid_file_whose_process_is_gone_is_passed_over(embedded: Cluster) -> None:
    embedded.start()
    embedded.stop()
    with subprocess.Popen(["/bin/true"]) as gone:
        gone.wait()
    write_pid_file(embedded, gone.pid)

    assert embedded.pid is None
    assert query(embedded.start(), "SELECT 1") == 1


@pytest.mark.parametrize("text", ["", "no number\n"])
def test_a_broken_pid_file_is_passed_over(embedded: Cluster, text: str) -> None:
    embedded.start()
    embedded.stop()
    (embedded.directory.resolve() / "postmaster.pid").write_text(text)

    assert query(embedded.start(), "SELECT 1") == 1


def test_a_pid_that_another_process_has_now_is_passed_over(embedded: Cluster) -> None:
    embedded.start()
    embedded.stop()
    owner = account.choose(embedded.directory)
    other = subprocess.Popen(["/bin/sleep", "60"], user=owner.uid if owner else None)
    try:
        write_pid_file(embedded, other.pid)

        assert query(embedded.start(), "SELECT 1") == 1
        assert embedded.pid != other.pid
        embedded.stop()
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


@only_root
def test_root_lends_the_database_an_account(embedded: Cluster) -> None:
    embedded.start()

    assert embedded.directory.stat().st_uid != 0
    assert embedded.directory.is_dir()
    assert not embedded.directory.is_symlink()


@only_root
def test_a_place_that_only_root_may_enter_works_and_stays_closed(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    embedded = Cluster(tmp_path / "postgres")
    try:
        query(embedded.start(), "CREATE TABLE note AS SELECT 'kept' AS text")
        home = embedded.directory.resolve()
        assert home.is_relative_to(account.SHARED)
        assert tmp_path.stat().st_mode & 0o777 == 0o700

        embedded.stop()
        assert query(embedded.start(), "SELECT text FROM note") == "kept"
        assert embedded.directory.resolve() == home
    finally:
        embedded.destroy()
    assert not home.parent.exists()


@only_root
def test_programs_that_only_root_may_enter_are_copied(
    tmp_path: Path, open_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = account.programs(None).parents[2]
    for part in (account.PACKAGE, f"{account.PACKAGE}.libs"):
        if (site / part).exists():
            shutil.copytree(site / part, tmp_path / part, symlinks=True)
    tmp_path.chmod(0o700)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(account, "SHARED", open_directory)
    embedded = Cluster(open_directory / "postgres")
    try:
        assert query(embedded.start(), "SELECT 1") == 1
        version = importlib.metadata.version(account.PACKAGE)
        copied = open_directory / f"programs-{version}" / account.PACKAGE / account.PROGRAMS
        assert (copied / "postgres").exists()
    finally:
        embedded.destroy()


def test_a_machine_without_the_wheel_is_told_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(account, "PACKAGE", "no_such_package")

    with pytest.raises(ConfigurationError, match=r"perdure\[embedded\]"):
        Cluster(tmp_path / "postgres").start()


@only_root
def test_a_user_without_rights_is_told_which_directory(open_directory: Path) -> None:
    locked = open_directory / "locked"
    locked.mkdir(mode=0o700)
    nobody = account.choose(locked)
    assert nobody is not None

    script = """
import os, sys
from pathlib import Path
from app.cli.embedded import Cluster
from app.errors import ConfigurationError
os.setgroups([])
os.setgid(int(sys.argv[2]))
os.setuid(int(sys.argv[3]))
try:
    Cluster(Path(sys.argv[1])).start()
except ConfigurationError as error:
    print(error)
"""
    arguments = [str(locked / "postgres"), str(nobody.gid), str(nobody.uid)]
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert f"The embedded Postgres in {locked / 'postgres'} cannot be used" in done.stdout, done
