"""An embedded PostgreSQL: a cluster in a directory, reached over a Unix socket.

The server outlives its starter, even one killed with -9; the next start on the directory shares it.
"""

import fcntl
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import psutil
import psycopg
from psycopg import sql

from app.cli import account as accounts
from app.cli.account import Account
from app.errors import ConfigurationError

USER = "postgres"
DATABASE = "perdure"
PORT = 5432
START_SECONDS = 60
# Backends of a killed server let go of its memory within moments; a start before that is refused.
SETTLE_SECONDS = 10
# Linux allows 107 bytes, macOS 103.
SOCKET_PATH_BYTES = 100


@dataclass(frozen=True)
class Cluster:
    """The PostgreSQL cluster in `directory`, which may not exist yet."""

    directory: Path
    settings: Mapping[str, str] = field(default_factory=dict)

    def start(self) -> str:
        """Make, start or join the cluster; returns the URL of the database `perdure`."""
        try:
            with self._lock():
                owner = accounts.choose(self.directory)
                data = accounts.settle(self.directory.absolute(), owner)
                if _postmaster(data) is None:
                    _initialise(data, owner)
                    _launch(data, owner, self.settings)
                _create_database(data)
        except OSError as error:
            raise ConfigurationError(
                f"The embedded Postgres in {self.directory} cannot be used: {error}.",
                hint="Give its directory to the user who runs Perdure, or set "
                "PERDURE_DATABASE_URL.",
            ) from error
        return self.url()

    def stop(self) -> None:
        """Shut down cleanly, ending every session; the data stays."""
        with self._lock():
            self._stop()

    def destroy(self) -> None:
        """Shut down and delete the data."""
        with self._lock() as lock:
            self._stop()
            data = self.directory.resolve()
            if self.directory.is_symlink():
                self.directory.unlink()
            if data.parent.parent == accounts.SHARED:
                data = data.parent
            shutil.rmtree(data, ignore_errors=True)
            lock.unlink()

    def url(self, database: str = DATABASE) -> str:
        return _url(self.directory.resolve(), database)

    @property
    def pid(self) -> int | None:
        """The server's process, while it runs."""
        return _postmaster(self.directory.resolve())

    def _stop(self) -> None:
        data = self.directory.resolve()
        if _postmaster(data) is not None:
            _shut_down(data)
        _forget_sockets(data)

    @contextmanager
    def _lock(self) -> Iterator[Path]:
        self.directory.parent.mkdir(parents=True, exist_ok=True)
        path = self.directory.with_name(f"{self.directory.name}.lock")
        with path.open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield path


def _postmaster(data: Path) -> int | None:
    """The pid of the server on `data`; a pid file whose process is gone or another is no server."""
    try:
        pid = int((data / "postmaster.pid").read_text().split("\n", 1)[0])
        return pid if psutil.Process(pid).cwd() == str(data) else None
    except (FileNotFoundError, ValueError, psutil.NoSuchProcess, psutil.AccessDenied):
        return None


def _initialise(data: Path, owner: Account | None) -> None:
    if (data / "PG_VERSION").exists():
        return
    # Made beside and renamed, so that a killed initdb leaves no half-made cluster.
    fresh = data.with_name(f"{data.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(mode=0o700, parents=True)
    if owner:
        os.chown(fresh, owner.uid, owner.gid)
    initdb = str(accounts.programs(owner) / "initdb")
    options = ["-U", USER, "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-instructions"]
    made = accounts.run([initdb, "-D", str(fresh), *options], owner)
    if made.returncode != 0:
        raise ConfigurationError(
            f"The embedded Postgres could not be made in {data}:", made.stdout.splitlines()[-12:]
        )
    with (fresh / "postgresql.conf").open("a") as file:
        file.write("\ninclude_if_exists = 'perdure.conf'\n")
    fresh.rename(data)


def _launch(data: Path, owner: Account | None, settings: Mapping[str, str]) -> None:
    _configure(data, owner, settings)
    log = data / "server.log"
    if log.exists():
        log.replace(data / "server.log.1")
    control = [str(accounts.programs(owner) / "pg_ctl"), "-D", str(data), "-s", "-w"]
    start = [*control, "-t", str(START_SECONDS), "-l", str(log), "start"]
    sockets = _recorded_sockets(data) or data
    deadline = time.monotonic() + SETTLE_SECONDS
    while True:
        # Postgres trusts the pid in these, whoever has it now; `_postmaster` looked closer.
        for lock in (data / "postmaster.pid", sockets / f".s.PGSQL.{PORT}.lock"):
            lock.unlink(missing_ok=True)
        started = accounts.run(start, owner)
        if started.returncode == 0:
            return
        told = log.read_text(errors="replace") if log.exists() else started.stdout
        if "still in use" not in told or time.monotonic() > deadline:
            raise ConfigurationError(
                "The embedded Postgres did not start. Its log ends with:",
                told.splitlines()[-12:],
                hint=f"The whole log is {log}.",
            )
        time.sleep(0.2)


def _shut_down(data: Path) -> None:
    owner = accounts.choose(data)
    stop = [str(accounts.programs(owner) / "pg_ctl"), "-D", str(data), "-s", "-w", "stop", "-m"]
    if accounts.run([*stop, "fast"], owner).returncode == 0:
        return
    ended = accounts.run([*stop, "immediate"], owner)
    if ended.returncode != 0 and _postmaster(data) is not None:
        raise ConfigurationError("The embedded Postgres did not stop.", [ended.stdout.strip()])


def _configure(data: Path, owner: Account | None, settings: Mapping[str, str]) -> None:
    values = {
        "listen_addresses": "",
        "port": str(PORT),
        "unix_socket_directories": str(_choose_sockets(data, owner)),
        "max_connections": "200",
        **settings,
    }
    quoted = {name: value.replace("'", "''") for name, value in values.items()}
    (data / "perdure.conf").write_text(
        "".join(f"{name} = '{value}'\n" for name, value in quoted.items())
    )
    if owner:
        os.chown(data / "perdure.conf", owner.uid, owner.gid)


def _choose_sockets(data: Path, owner: Account | None) -> Path:
    """The data directory, or a private temporary one if a socket's path there is too long."""
    if _fits(data):
        _forget_sockets(data)
        return data
    recorded = _recorded_sockets(data)
    if recorded is not None and recorded.is_dir() and recorded.owner() == data.owner():
        return recorded
    places = [Path(tempfile.gettempdir()), Path("/tmp")]
    place = next(p for p in places if _fits(p / "perdure-01234567") and _open_to(p, owner))
    sockets = Path(tempfile.mkdtemp(prefix="perdure-", dir=place))
    if owner:
        os.chown(sockets, owner.uid, owner.gid)
    (data / "sockets").write_text(str(sockets))
    return sockets


def _fits(directory: Path) -> bool:
    path = os.fsencode(directory / f".s.PGSQL.{PORT}")
    # A comma or a quote would have a meaning in Postgres's list of directories.
    plain = re.fullmatch(rb"[\w./+-]+", path) is not None
    return plain and len(path) <= SOCKET_PATH_BYTES


def _open_to(directory: Path, owner: Account | None) -> bool:
    return owner is None or owner.can_enter(directory)


def _recorded_sockets(data: Path) -> Path | None:
    record = data / "sockets"
    return Path(record.read_text()) if record.exists() else None


def _forget_sockets(data: Path) -> None:
    recorded = _recorded_sockets(data)
    if recorded is not None:
        shutil.rmtree(recorded, ignore_errors=True)
        (data / "sockets").unlink()


def _url(data: Path, database: str) -> str:
    sockets = _recorded_sockets(data) or data
    return f"postgresql://{USER}@/{quote(database)}?host={quote(str(sockets))}&port={PORT}"


def _create_database(data: Path) -> None:
    with _connect(data) as connection:
        found = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE])
        if found.fetchone() is None:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))


def _connect(data: Path) -> psycopg.Connection:
    """Wait for a server that is still starting or recovering."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            return psycopg.connect(_url(data, USER), autocommit=True, connect_timeout=5)
        except psycopg.OperationalError as error:
            if time.monotonic() > deadline:
                raise ConfigurationError(
                    f"The embedded Postgres in {data} runs, but does not answer: {error}.",
                    hint=f"End it with `kill {_postmaster(data)}` and start again.",
                ) from error
        time.sleep(0.1)
