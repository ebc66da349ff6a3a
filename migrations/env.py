"""Alembic's environment: our schema only; DBOS migrates its own."""

from typing import Any

import sqlalchemy as sa
from alembic import context


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
            context.run_migrations()
        connection.commit()
    engine.dispose()


run()
