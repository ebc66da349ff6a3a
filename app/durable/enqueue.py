"""Legs are enqueued in the transaction that makes them due, or not at all."""

from dbos import DBOSClient, EnqueueOptions
from sqlalchemy import create_engine

from app.domain.ids import leg_id
from app.durable import names
from app.durable.serializer import JournalSerializer
from app.store import runs
from app.store.db import REACH, Transaction, sqlalchemy_url

# Between the death of a worker and the next try of what it may have died of.
SUSPECTS_PAUSE = 1.0
# A frozen worker's lock on one leg must not hold up whoever takes over the others.
SESSION = "-c idle_in_transaction_session_timeout=15s -c lock_timeout=5s"
# Each is a parameter of a statement, which can have 65,535 of them.
AT_ONCE = 1000


class Legs:
    def __init__(self, url: str) -> None:
        # Lazy and without retries: it enqueues over the caller's connection, never over its own.
        reach = {**REACH, "options": SESSION}
        self._engine = create_engine(
            sqlalchemy_url(url), pool_pre_ping=True, max_overflow=0, connect_args=reach
        )
        self._client = DBOSClient(
            system_database_engine=self._engine,
            serializer=JournalSerializer(),
            application_name=names.APPLICATION,
            lazy=True,
            retry_connection_errors=False,
        )

    async def enqueue(
        self, transaction: Transaction, run: str, leg: int, *, pause: float = 0.0
    ) -> None:
        """After `pause` seconds. A leg that exists already is an error: a lost wake-up, else."""
        lane = await runs.lane(transaction.connection, run)
        options: EnqueueOptions = {
            "queue_name": names.RUNS,
            "workflow_name": names.LEG,
            "workflow_id": leg_id(run, leg),
            "workflow_id_reuse_policy": "reject",
            "app_version": names.APPLICATION_VERSION,
        }
        # Without a priority a leg goes before all that have one: what has begun goes on before
        # anything new begins, and holds its session no longer than it must.
        if leg == 1 and not lane["child"]:
            options["priority"] = lane["priority"] + 1
        if lane["suspect"]:
            options["queue_name"] = names.SUSPECTS
            pause = max(pause, SUSPECTS_PAUSE)
        else:
            options["queue_partition_key"] = lane["queue_key"]
        if pause:
            options["delay_seconds"] = pause
        await transaction.sqlalchemy.run_sync(
            lambda connection: self._client.enqueue_in_transaction(connection, options, run, leg)
        )

    def resume(self, workflow: str, queue: str) -> None:
        """Blocks. Hands a pending leg back to the queue it came from, whoever had it.

        Its key stays with it: without one no partition of the queue would ever hold it.
        """
        self._client.resume_workflow(workflow, queue_name=queue)

    def drop(self, workflow: str) -> None:
        """Blocks. Ends a pending leg that its run has left behind."""
        self._client.cancel_workflow(workflow)

    def forget(self, workflows: list[str]) -> None:
        """Blocks. Removes legs that are over from the journal."""
        for first in range(0, len(workflows), AT_ONCE):
            self._client.delete_workflows(workflows[first : first + AT_ONCE])

    def close(self) -> None:
        self._client.destroy()
        self._engine.dispose()
