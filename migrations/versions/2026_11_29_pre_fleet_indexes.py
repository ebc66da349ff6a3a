"""Indexes by which what is to be removed is found, built while the tables are in use."""

from alembic import op

revision = "0004"
down_revision = "0003"

INDEXES = {
    "runs_ended": "runs (finished_at, id) where finished_at is not null",
    "runs_by_source": "runs (forked_from) where forked_from is not null",
    "runs_ever_by_target": "runs (target) where target is not null",
    "idempotency_by_run": "idempotency (run)",
    "idempotency_outliving": "idempotency (created_at) where run is null",
    "workers_dead": "workers (dead_at) where dead_at is not null",
    "rules_of_runs": "rules (run) where scope <> 'agent'",
}


def upgrade() -> None:
    with op.get_context().autocommit_block():
        for name, on in INDEXES.items():
            # What an earlier try that was cut off has left is not valid.
            op.execute(f"drop index concurrently if exists perdure.{name}")
            op.execute(f"create index concurrently {name} on perdure.{on}")
