"""How long an attempt took that is written down with its outcome: functions only."""

from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Replaced in the same transaction; who runs yet calls them without the new parameter."""
    for name in ("attempted", "finish_call", "hold_call"):
        op.execute(f"drop function if exists perdure.{name}")
