"""Kinds of trouble with the database. Each lasts as long as its context."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from tests.support.sabotage import refused_writes
from tests.support.server import Server, end_sessions

HOST = "db.perdure.test"
WRITABLE: dict[str, Any] = {
    "application_name": "trouble",
    "options": "-c default_transaction_read_only=off",
}
READ_ONLY = "alter database {} set default_transaction_read_only = on"
READ_WRITE = "alter database {} reset default_transaction_read_only"
CROWD: dict[str, Any] = {"application_name": "crowd"}
END_OTHERS = """
    select count(pg_terminate_backend(pid)) from pg_stat_activity
    where backend_type = 'client backend' and application_name <> 'crowd'
"""
END_LISTENERS = """
    select count(pg_terminate_backend(pid)) from pg_stat_activity
    where datname = current_database() and query ilike 'listen %'
"""
WRITTEN = [
    *(f"perdure.{name}" for name in ("runs", "turns", "calls", "events", "waits", "workers")),
    *(f"dbos.{name}" for name in ("workflow_status", "workflow_output", "operation_outputs")),
]
FILL_SECONDS = 20.0


@dataclass(frozen=True)
class Place:
    """One database of a server, as tests reach it, and how its service finds the host."""

    server: Server
    url: str
    hosts: Path

    def resolves(self) -> None:
        self.hosts.write_text(f"{HOST} 127.0.0.1\n")


@contextmanager
def restarted(place: Place) -> Iterator[None]:
    """All sessions are lost, and what was not committed with them."""
    place.server.stop("immediate")
    place.server.start()
    yield


@contextmanager
def away(place: Place) -> Iterator[None]:
    """Connections are refused, or find no socket."""
    place.server.stop()
    try:
        yield
    finally:
        place.server.start()


@contextmanager
def unresolved(place: Place) -> Iterator[None]:
    """The host's name is not known for a while."""
    place.hosts.write_text("")
    end_sessions(place.url)
    try:
        yield
    finally:
        place.resolves()


@contextmanager
def crowded(place: Place) -> Iterator[None]:
    """`max_connections` is reached, and none of them is the service's."""
    with ExitStack() as crowd:
        first = crowd.enter_context(psycopg.connect(place.url, autocommit=True, **CROWD))
        deadline = time.monotonic() + FILL_SECONDS
        while time.monotonic() < deadline:
            try:
                crowd.enter_context(psycopg.connect(place.url, autocommit=True, **CROWD))
            except psycopg.OperationalError:
                if not _end_others(first):
                    break
        yield


def end_listeners(place: Place) -> int:
    """Ends the sessions that wait for notices; how many there were."""
    with psycopg.connect(place.url, autocommit=True) as connection:
        (count,) = connection.execute(END_LISTENERS).fetchone() or (0,)
        return int(count)


def _end_others(crowd: psycopg.Connection) -> int:
    (count,) = crowd.execute(END_OTHERS).fetchone() or (0,)
    return int(count)


@contextmanager
def read_only(place: Place) -> Iterator[None]:
    """The moment of a failover: whoever connects finds a database that takes no writes."""
    with psycopg.connect(place.url, autocommit=True, **WRITABLE) as connection:
        name = sql.Identifier(connection.info.dbname)
        connection.execute(sql.SQL(READ_ONLY).format(name))
        end_sessions(place.url)
        try:
            yield
        finally:
            connection.execute(sql.SQL(READ_WRITE).format(name))


@contextmanager
def disk_full(place: Place) -> Iterator[None]:
    """Whoever writes a row, ours or the journal's, is told that there is no room for it."""
    with refused_writes(place.url, errcode="disk_full", tables=WRITTEN):
        yield


TROUBLES = {
    "restart": restarted,
    "outage": away,
    "dns": unresolved,
    "crowd": crowded,
    "read_only": read_only,
    "disk_full": disk_full,
}
