"""Submitting runs from SQL: functions only."""

from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """The functions are replaced after the newest revision; one has another name."""
    op.execute("drop function if exists perdure.keeps_waiting")
