"""${message}"""

from alembic import op

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}

# Of the functions that come with it; no later ones may.
FUNCTIONS = ""


def upgrade() -> None:
    op.execute("set local lock_timeout = '5s'")
