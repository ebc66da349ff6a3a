"""How long an attempt took that is written down with its outcome: functions only."""

from alembic import op

revision = "0008"
down_revision = "0007"

# Of the functions that come with it; no later ones may.
FUNCTIONS = "49957e5870c5ee070c533dcc77482222f8485025a1fe1bf38b16e20ee353222d"


def upgrade() -> None:
    """Replaced in the same transaction; who runs yet calls them without the new parameter."""
    for name in ("attempted", "finish_call", "hold_call"):
        op.execute(f"drop function if exists perdure.{name}")
