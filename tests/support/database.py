"""Postgres for the tests: one cluster per session, one migrated template, one clone per test."""

import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy.engine import URL, make_url

from app.cli.embedded import Cluster as EmbeddedPostgres
from tests.support.containers import in_container
from tests.support.environment import ROOT, inherited

NOTES = "create table public.notes (run text not null, text text not null)"


class Cluster:
    """A Postgres server in which each test gets a database of its own."""

    def __init__(self, url: str) -> None:
        self._admin_url = url
        self._tag = f"t{secrets.token_hex(4)}"
        self._template: str | None = None
        self._clones = 0

    def clone(self) -> str:
        """Makes a migrated, empty database; its URL."""
        if self._template is None:
            self._template = self._make_template()
        self._clones += 1
        name = f"{self._tag}_{self._clones}"
        self._run("create database {} template {}", name, self._template)
        return self.url_of(name)

    def drop(self, url: str) -> None:
        self._run("drop database if exists {} with (force)", _database_name(url))

    def close(self) -> None:
        if self._template is not None:
            self._run("drop database if exists {} with (force)", self._template)

    def create_empty(self) -> str:
        """Makes a database without any schema of ours; its URL."""
        self._clones += 1
        name = f"{self._tag}_{self._clones}"
        self._run("create database {}", name)
        return self.url_of(name)

    def version(self) -> str:
        with psycopg.connect(self._admin_url) as connection:
            (version,) = connection.execute("show server_version").fetchone() or ("unknown",)
            return str(version).partition(" ")[0]

    def url_of(self, name: str) -> str:
        url: URL = make_url(self._admin_url).set(database=name)
        return url.render_as_string(hide_password=False)

    def _make_template(self) -> str:
        name = f"{self._tag}_template"
        self._run("create database {}", name)
        url = self.url_of(name)
        migrate(url)
        with psycopg.connect(url) as connection:
            connection.execute(NOTES)
        return name

    def _run(self, statement: str, *names: str) -> None:
        with psycopg.connect(self._admin_url, autocommit=True) as connection:
            query = sql.SQL(statement).format(*map(sql.Identifier, names))
            connection.execute(query)


def migrate(url: str) -> None:
    command = [sys.executable, "-m", "app.cli", "migrate"]
    environment = inherited() | {"PERDURE_DATABASE_URL": url}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    if done.returncode != 0:
        raise RuntimeError(f"perdure migrate failed:\n{done.stdout}\n{done.stderr}")


def live_worker_pids(url: str) -> set[int]:
    with psycopg.connect(url, autocommit=True) as connection:
        rows = connection.execute("select pid from perdure.workers where dead_at is null")
        return {pid for (pid,) in rows}


@contextmanager
def open_cluster() -> Iterator[Cluster]:
    """One of the server at PERDURE_TEST_DATABASE_URL; else of one that is gone afterwards: in a
    container with PERDURE_TEST_DATABASE=docker, or embedded."""
    with ExitStack() as stack:
        given = os.environ.get("PERDURE_TEST_DATABASE_URL")
        if given is None:
            kind = os.environ.get("PERDURE_TEST_DATABASE", "embedded")
            given = stack.enter_context(SERVERS[kind]())
        yield from _closing(Cluster(given))


@contextmanager
def _embedded() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="perdure-pg-", ignore_cleanup_errors=True) as parent:
        server = EmbeddedPostgres(Path(parent) / "data")
        try:
            yield server.start()
        finally:
            server.destroy()


SERVERS = {"embedded": _embedded, "docker": in_container}


def _closing(cluster: Cluster) -> Iterator[Cluster]:
    try:
        yield cluster
    finally:
        cluster.close()


def _database_name(url: str) -> str:
    return str(conninfo_to_dict(url)["dbname"])
