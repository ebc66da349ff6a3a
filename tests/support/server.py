"""A Postgres server of a test's own, to be stopped and started while others use it."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from app.cli import account as accounts
from tests.support.processes import free_port

USER = "postgres"
# What Debian's package puts beside the PATH.
DEBIAN = Path("/usr/lib/postgresql/15/bin")
END_SESSIONS = """
    select count(pg_terminate_backend(pid)) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid()
      and application_name <> 'trouble'
"""
SETTINGS = {
    "max_connections": "120",
    "superuser_reserved_connections": "3",
    "shared_buffers": "32MB",
    "unix_socket_permissions": "0777",
}


def debian_programs() -> Path | None:
    """Where PostgreSQL 15 is, if this machine has it."""
    found = shutil.which("initdb")
    places = [DEBIAN, *([Path(found).resolve().parent] if found else [])]
    return next((place for place in places if _is_15(place / "postgres")), None)


def _is_15(postgres: Path) -> bool:
    return postgres.exists() and " 15." in accounts.run([str(postgres), "-V"], None).stdout


def embedded_programs(data: Path) -> Path:
    return accounts.programs(accounts.choose(data))


class Server:
    """Listens on a socket and on TCP. `stop` ends every session, as its mode says."""

    def __init__(self, programs: Path, directory: Path) -> None:
        self._programs = programs
        self._data = directory / "data"
        self._sockets = directory
        self._owner = accounts.choose(self._data)
        self.port = free_port()

    def create(self) -> None:
        if self._owner:
            os.chown(self._sockets, self._owner.uid, self._owner.gid)
        made = "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-instructions"
        self._run("initdb", "-D", str(self._data), "-U", USER, *made)
        settings = SETTINGS | {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": str(self._sockets),
        }
        with (self._data / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())

    def start(self) -> None:
        """Returns when connections are accepted."""
        self._run("pg_ctl", *self._control, "-l", str(self._data / "log"), "start")

    def stop(self, mode: str = "fast") -> None:
        self._run("pg_ctl", *self._control, "stop", "-m", mode)

    def url(self, link: str, host: str = "127.0.0.1", database: str = "postgres") -> str:
        """Over `tcp` or `socket`."""
        if link == "tcp":
            return f"postgresql://{USER}@{host}:{self.port}/{database}"
        return f"postgresql://{USER}@/{database}?host={self._sockets}&port={self.port}"

    @property
    def _control(self) -> tuple[str, ...]:
        return ("-D", str(self._data), "-s", "-w", "-t", "60")

    def _run(self, program: str, *options: str) -> None:
        done = accounts.run([str(self._programs / program), *options], self._owner)
        if done.returncode != 0:
            raise RuntimeError(f"{program} {' '.join(options)} failed:\n{done.stdout}")


@contextmanager
def open_server(programs: Path) -> Iterator[Server]:
    """Started; nothing of it is left afterwards."""
    with tempfile.TemporaryDirectory(prefix="perdure-pg-", ignore_cleanup_errors=True) as name:
        server = Server(programs, Path(name))
        server.create()
        server.start()
        try:
            yield server
        finally:
            server.stop("immediate")


def end_sessions(url: str) -> int:
    """Ends all sessions of a database but this one; how many there were."""
    with psycopg.connect(url, autocommit=True) as connection:
        (count,) = connection.execute(END_SESSIONS).fetchone() or (0,)
        return int(count)
