"""Commands as they start: what they import, list, complete and refuse."""

import os
import subprocess
import sys

import psycopg
from sqlalchemy import URL, make_url

from tests.integration.cli.test_dev import COMMAND, PATIENCE_SECONDS, make_environment

HEAVY = ["alembic", "anthropic", "dbos", "fastapi", "httpx", "psycopg", "pydantic", "sqlalchemy"]
HELP = """
import sys
from app.cli import application
try:
    application(["--help"], prog_name="perdure")
finally:
    print("LOADED", *sys.modules)
"""


def start(command: list[str], **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        env=make_environment(1) | more,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


def test_help_lists_all_commands_and_loads_nothing_heavy() -> None:
    told, _, loaded = start([sys.executable, "-P", "-c", HELP]).stdout.partition("LOADED")

    assert set(HEAVY).isdisjoint(loaded.split())
    for command in ("runs", "waits", "dev", "doctor", "simulate", "clear", "verify"):
        assert f" {command} " in told


def test_a_shell_is_told_how_words_go_on() -> None:
    told = start(
        COMMAND,
        _PERDURE_COMPLETE="complete_bash",
        COMP_WORDS="perdure runs s",
        COMP_CWORD="2",
    )
    assert told.stdout.split() == ["submit", "show", "send"]


def test_a_worker_that_could_call_no_model_refuses_to_start() -> None:
    database = {"PERDURE_DATABASE_URL": "postgresql://127.0.0.1:1/nothing"}
    refused = start([*COMMAND, "worker"], HOME=os.devnull, **database)

    assert refused.returncode == 1
    assert "ANTHROPIC_API_KEY is not set" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_migration_without_its_database_says_what_to_correct(empty_database_url: str) -> None:
    refused = migrate(make_url(empty_database_url).set(database="nothing"))
    assert 'database "nothing" does not exist' in refused


def test_a_migration_by_a_user_without_rights_says_what_to_correct(
    empty_database_url: str,
) -> None:
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        connection.execute("create role visitor login password 'visitor'")
        try:
            refused = migrate(
                make_url(empty_database_url).set(username="visitor", password="visitor")
            )
        finally:
            connection.execute("drop role visitor")
    assert "permission denied" in refused


def migrate(url: URL) -> str:
    told = start([*COMMAND, "migrate"], PERDURE_DATABASE_URL=url.render_as_string(False))
    assert told.returncode == 1
    assert told.stderr.startswith("The database cannot be migrated: ")
    assert "correct PERDURE_DATABASE_URL" in told.stderr
    assert "Traceback" not in told.stderr
    return told.stderr
