"""What the service has in its hands: memory, threads, connections to the database, queue slots."""

from dataclasses import dataclass
from typing import LiteralString

import psutil
import psycopg

from bench.service import Service

CONNECTIONS = """
    select count(*) from pg_stat_activity
    where datname = current_database() and backend_type = 'client backend'
        and pid <> pg_backend_pid()
"""
SLOTS = """
    select count(*) from dbos.workflow_status where status in ('ENQUEUED', 'DELAYED', 'PENDING')
"""


@dataclass(frozen=True)
class Held:
    """Resident memory in MB; `slots`: legs that are queued or running."""

    api_mb: float
    worker_mb: float
    api_threads: int
    worker_threads: int
    connections: int
    slots: int

    def cells(self) -> tuple[str, ...]:
        return (
            f"{self.api_mb:.1f}",
            f"{self.worker_mb:.1f}",
            f"{self.api_threads} + {self.worker_threads}",
            f"{self.connections}",
            f"{self.slots}",
        )


def look(service: Service) -> Held:
    api, worker = psutil.Process(service.server), psutil.Process(service.worker)
    return Held(
        api_mb=api.memory_info().rss / 1e6,
        worker_mb=worker.memory_info().rss / 1e6,
        api_threads=api.num_threads(),
        worker_threads=worker.num_threads(),
        connections=count(service, CONNECTIONS),
        slots=count(service, SLOTS),
    )


def count_runs(service: Service, *states: str) -> int:
    return count(service, "select count(*) from perdure.runs where status = any(%s)", list(states))


def count(service: Service, statement: LiteralString, *values: object) -> int:
    with psycopg.connect(service.database) as connection:
        found = connection.execute(statement, values).fetchone()
    assert found is not None
    return int(found[0])
