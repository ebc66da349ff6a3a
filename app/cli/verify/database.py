"""A database for each trial, cloned from one that is migrated and has the tools' tables."""

import secrets
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import dict_row

from app.cli.verify.nursery import Nursery
from app.cli.verify.scenario import Json
from app.errors import ConfigurationError

_WRITERS = """
    select n.nspname || '.' || p.proname from pg_proc p
    join pg_namespace n on n.oid = p.pronamespace
    where p.provolatile = 'v' and n.nspname not in ('pg_catalog', 'information_schema')
"""
_TABLES = """
    select schemaname, tablename from pg_tables
    where schemaname not in ('perdure', 'dbos', 'verify', 'pg_catalog', 'information_schema')
    order by 1, 2
"""
_RUNS = "select id, agent, status, reason, error, input from perdure.runs order by place"
_CALLS = """
    select c.*, w.resolution as settled from perdure.calls c
    left join perdure.waits w on w.call = c.id and w.kind = 'outcome' and w.state = 'resolved'
    order by c.run, c.turn, c.index
"""
_LEGS = """
    select from dbos.workflow_status
    where name = 'perdure.leg' and status in ('PENDING', 'ENQUEUED', 'DELAYED')
"""
_TURNS = "select run, number from perdure.turns where finished_at is not null"
_ALL = {
    "runs": "select * from perdure.runs order by id",
    "turns": "select * from perdure.turns order by run, number",
    "calls": "select * from perdure.calls order by id",
    "waits": "select * from perdure.waits order by id",
    "events": "select * from perdure.events order by run, seq",
}


class Template:
    """Of the databases on one server, which may make and drop them."""

    def __init__(
        self,
        url: str,
        nursery: Nursery,
        environment: Mapping[str, str],
        tables: str | None,
        source: str = "template1",
    ) -> None:
        """`source`: the database that it is made from; one that is migrated takes less time."""
        self._url = url
        self._tag = f"verify_{secrets.token_hex(4)}"
        self._numbers = count(1)
        try:
            self._run("create database {} template {}", self._tag, source)
            if source == "template1":
                self._migrate(nursery, environment)
            self.writers = self._prepare(tables)
        except BaseException:
            self.close()
            raise

    def _prepare(self, tables: str | None) -> frozenset[str]:
        """Makes the tables of the tools; the functions that may write."""
        with self.connect(self.url_of(self._tag)) as connection:
            if tables is not None:
                connection.execute(tables.encode())
            found = connection.execute(_WRITERS).fetchall()
        return frozenset(name for each in found for name in each.values())

    def url_of(self, name: str) -> str:
        given = conninfo_to_dict(self._url)
        who = credentials(given)
        host, port = str(given.get("host") or "127.0.0.1"), given.get("port") or 5432
        if host.startswith("/"):
            return f"postgresql://{who}@/{name}?host={quote(host)}&port={port}"
        return f"postgresql://{who}@{host}:{port}/{name}"

    @contextmanager
    def clone(self) -> Iterator["Trialed"]:
        name = f"{self._tag}_{next(self._numbers)}"
        self._run("create database {} template {}", name, self._tag)
        try:
            yield Trialed(self.url_of(name))
        finally:
            self._run("drop database if exists {} with (force)", name)

    def close(self) -> None:
        self._run("drop database if exists {} with (force)", self._tag)

    @staticmethod
    def connect(url: str) -> psycopg.Connection[Json]:
        return psycopg.connect(url, autocommit=True, row_factory=dict_row)

    def _migrate(self, nursery: Nursery, environment: Mapping[str, str]) -> None:
        settings = {**environment, "PERDURE_DATABASE_URL": self.url_of(self._tag)}
        with tempfile.TemporaryDirectory() as directory:
            log = Path(directory) / "migrate.log"
            if nursery.reap(nursery.start(["migrate"], settings, log)) != 0:
                told = log.read_text(errors="replace").splitlines()[-12:]
                raise ConfigurationError("The database could not be migrated:", told)

    def _run(self, statement: str, *names: str) -> None:
        with psycopg.connect(make_conninfo(self._url), autocommit=True) as connection:
            connection.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))


def credentials(server: Mapping[str, Any]) -> str:
    """As they stand in a URL."""
    user, password = quote(str(server.get("user") or "postgres"), safe=""), server.get("password")
    return f"{user}:{quote(str(password), safe='')}" if password else user


class Trialed:
    """The database of one trial, seen past the proxy."""

    def __init__(self, url: str) -> None:
        self.url = url

    def runs(self) -> list[Json]:
        return self._rows(_RUNS)

    def calls(self) -> list[Json]:
        return self._rows(_CALLS)

    def finished_turns(self) -> set[tuple[str, int]]:
        return {(each["run"], each["number"]) for each in self._rows(_TURNS)}

    def events(self) -> list[Json]:
        return self._rows(_ALL["events"])

    def everything(self) -> dict[str, list[Json]]:
        """All that a message from the past must not change."""
        return {name: self._rows(query) for name, query in _ALL.items()}

    def is_quiet(self) -> bool:
        """Whether DBOS has no leg left to run."""
        with Template.connect(self.url) as connection:
            return connection.execute(_LEGS).fetchone() is None

    def is_resolved(self, wait: str) -> bool:
        with Template.connect(self.url) as connection:
            query = "select from perdure.waits where id = %s and state <> 'open'"
            return connection.execute(query, [wait]).fetchone() is not None

    def counts(self) -> dict[str, int]:
        """How many rows each table of the tools has."""
        found = {}
        with Template.connect(self.url) as connection:
            for table in connection.execute(_TABLES).fetchall():
                name = sql.Identifier(table["schemaname"], table["tablename"])
                query = sql.SQL("select count(*) as rows from {}").format(name)
                row = connection.execute(query).fetchone()
                assert row is not None
                found[f"{table['schemaname']}.{table['tablename']}"] = int(row["rows"])
        return found

    def _rows(self, query: str) -> list[Json]:
        with Template.connect(self.url) as connection:
            return connection.execute(query.encode()).fetchall()


@contextmanager
def server(url: str | None, home: Path) -> Iterator[str]:
    """A server for the trials: the one that is named, or an embedded one that ends with them."""
    if url is not None:
        yield url
        return
    from app.cli import account as accounts

    accounts.programs(None)  # before the import, which fails without the extra `embedded`
    from app.cli.embedded import Cluster

    # Beside the home, where `perdure clear` finds what a killed one has left.
    cluster = Cluster(home.with_name(f"{home.name}-postgres"))
    started = cluster.start()
    try:
        yield started
    finally:
        cluster.destroy()
