"""Runs, turns, calls, waits, messages, events, and the functions that change them."""

from pathlib import Path

from alembic import op

revision = "0001"
down_revision = None

SQL = Path(__file__).parent.parent / "sql"
FILES = ("tables", "events", "legs", "endings", "turns", "ledger", "waits", "fleet")


def upgrade() -> None:
    op.execute("set local lock_timeout = '5s'")
    connection = op.get_bind()
    for name in FILES:
        connection.exec_driver_sql(
            (SQL / f"{name}.sql").read_text(), execution_options={"no_parameters": True}
        )
