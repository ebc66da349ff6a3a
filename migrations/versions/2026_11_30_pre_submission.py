"""Submitting runs from SQL: functions only."""

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """The functions are replaced after the newest revision."""
