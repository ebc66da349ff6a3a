"""Bringing our schema to the newest revision."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory

from app.store.db import Connection, row, sqlalchemy_url

MIGRATIONS = Path(__file__).resolve().parents[2] / "migrations"
LOCK = 1346720845


def _config(url: str) -> Config:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.set_main_option("sqlalchemy.url", sqlalchemy_url(url).replace("%", "%%"))
    return config


def scripts() -> ScriptDirectory:
    return ScriptDirectory.from_config(_config("postgresql://"))


def head() -> str:
    """The revision this code needs."""
    found = scripts().get_current_head()
    assert found is not None
    return found


@contextmanager
def alone(url: str) -> Iterator[None]:
    """Of two processes that migrate at once, the second waits and then finds nothing to do."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("select pg_advisory_lock(%s)", (LOCK,))
        yield


def is_older(revision: str) -> bool:
    """A revision that this code does not know is a newer one, which still serves it."""
    known = [script.revision for script in scripts().walk_revisions()]
    return revision in known and revision != head()


def upgrade(url: str) -> None:
    command.upgrade(_config(url), "head")


async def revision(connection: Connection) -> str | None:
    """The revision that the database is at, or None."""
    there = await row(
        connection, "select to_regclass('perdure.schema_version') is not null as there"
    )
    if there is None or not there["there"]:
        return None
    found = await row(connection, "select version_num from perdure.schema_version")
    return None if found is None else found["version_num"]
