"""Indexes by which people find what waits for them, built while the tables are in use."""

from alembic import op

revision = "0007"
down_revision = "0006"

INDEXES = {
    "waits_asking": "waits (created_at, id) where state = 'open' "
    "and kind in ('approval', 'outcome', 'input', 'external')",
    "runs_dead": "runs (created_at desc, id desc) where status = 'dead_letter'",
}


def upgrade() -> None:
    with op.get_context().autocommit_block():
        for name, on in INDEXES.items():
            # What an earlier try that was cut off has left is not valid.
            op.execute(f"drop index concurrently if exists perdure.{name}")
            op.execute(f"create index concurrently {name} on perdure.{on}")
