"""Alembic's environment: our schema only; DBOS migrates its own."""

from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic import context

FUNCTIONS = Path(__file__).parent / "functions"


def run() -> None:
    engine: Any = sa.create_engine(context.config.get_main_option("sqlalchemy.url") or "")
    with engine.connect() as connection:
        context.configure(
            connection=connection,
            version_table_schema="perdure",
            version_table="schema_version",
            transactional_ddl=True,
        )
        connection.execute(sa.text("create schema if not exists perdure"))
        connection.commit()
        with context.begin_transaction():
            migration = context.get_context()
            before = migration.get_current_heads()
            context.run_migrations()
            if migration.get_current_heads() != before:
                _replace_functions(connection)
        connection.commit()
    engine.dispose()


def _replace_functions(connection: sa.Connection) -> None:
    """As of the newest revision; a revision drops those whose signature it changes."""
    # Bodies may name functions of files that come later.
    connection.execute(sa.text("set local check_function_bodies = off"))
    for file in sorted(FUNCTIONS.glob("*.sql")):
        connection.exec_driver_sql(file.read_text(), execution_options={"no_parameters": True})


run()
