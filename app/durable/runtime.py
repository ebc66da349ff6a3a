"""DBOS itself: how it is configured, launched, migrated and left."""

import logging
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psycopg
import sqlalchemy
from dbos import DBOS, DBOSConfig
from dbos._queue import QueueRateLimit
from sqlalchemy import event

import app.durable.leg  # noqa: F401 - registers the workflow and its steps under their names
from app.durable import engine, names
from app.durable.serializer import JournalSerializer, refuse_pickle
from app.store.db import sqlalchemy_url

log = logging.getLogger(__name__)

CLOSING_SECONDS = 3.0


def prepare() -> None:
    """Once per process, before any engine is made."""
    refuse_pickle()
    logging.getLogger("dbos").setLevel(logging.WARNING)
    event.listen(sqlalchemy.Engine, "handle_error", _call_it_a_disconnect)


def _call_it_a_disconnect(context: sqlalchemy.ExceptionContext) -> None:
    """DBOS tells an outage by the error's words, and misses some: a missing socket, a DNS failure.

    A session that may only read will do so for ever, whatever becomes of its database.
    """
    error = context.original_exception
    if isinstance(error, psycopg.errors.ReadOnlySqlTransaction) or (
        isinstance(error, psycopg.OperationalError)
        and (context.connection is None or error.sqlstate is None)
    ):
        context.is_disconnect = True


def configure(url: str, worker: str, is_leaving: Callable[[], bool]) -> DBOSConfig:
    return {
        "name": names.APPLICATION,
        "system_database_url": sqlalchemy_url(url),
        "system_database_engine": engine.make(url, is_leaving),
        "executor_id": worker,
        "application_version": names.APPLICATION_VERSION,
        "serializer": JournalSerializer(),
        "max_executor_threads": 64,
        # Nobody listens to DBOS's own events; its notifier need not wake a hundred times a second.
        "notification_coalesce_sec": 1.0,
        "run_migrations": False,
        "log_level": "WARNING",
    }


@dataclass(frozen=True)
class KeyLimits:
    """What the runs of one queue key may take; None for no limit.

    `worker_concurrency`: of one worker; `rate`: legs begun, in seconds.
    """

    concurrency: int | None = None
    worker_concurrency: int | None = None
    rate: tuple[int, float] | None = None

    def share(self, of_worker: int) -> int:
        """One slot in five is kept for other keys: a burst of one would hold them all for as long
        as its model calls take."""
        if self.worker_concurrency is not None:
            return self.worker_concurrency
        return min(math.ceil(of_worker * 4 / 5), self.concurrency or of_worker)


def launch(config: DBOSConfig, concurrency: int, of_key: KeyLimits | None = None) -> None:
    """Blocks, and must not run on the event loop."""
    of_key = of_key or KeyLimits()
    _launch(config, [names.RUNS, names.QUEUE])
    _register(
        names.RUNS,
        worker_concurrency=concurrency,
        partition_concurrency=of_key.concurrency,
        partition_worker_concurrency=of_key.share(concurrency),
        partition_limiter=of_key.rate
        and QueueRateLimit(limit=of_key.rate[0], period=of_key.rate[1]),
        polling_interval_sec=0.05,
        on_conflict="always_update",
    )
    _register(
        names.QUEUE,
        worker_concurrency=concurrency,
        polling_interval_sec=1.0,
        on_conflict="always_update",
    )


def _launch(config: DBOSConfig, queues: list[str]) -> None:
    """Here DBOS gives up when its connection is cut, instead of trying again."""
    while True:
        DBOS(config=config)
        DBOS.listen_queues(queues)
        try:
            DBOS.launch()
            return
        except sqlalchemy.exc.OperationalError as error:
            log.warning("DBOS starts again: %s", error.orig)
            DBOS.destroy()
        time.sleep(engine.PAUSE)


def _register(name: str, **options: Any) -> None:
    """And here."""
    while True:
        try:
            DBOS.register_queue(name, **options)
            return
        except sqlalchemy.exc.OperationalError as error:
            log.warning("queue %s cannot be registered: %s", name, error.orig)
        time.sleep(engine.PAUSE)


def launch_isolated(config: DBOSConfig) -> None:
    """The same for a process that carries out suspects, one at a time."""
    _launch(config, [names.SUSPECTS])
    _register(
        names.SUSPECTS,
        worker_concurrency=1,
        polling_interval_sec=0.2,
        on_conflict="always_update",
    )


def leave(grace_seconds: float) -> None:
    """Blocks. Stops claiming at once, then waits for the legs in hand to reach a border.

    A database that is away makes it no longer.
    """
    grace = {"workflow_completion_timeout_sec": int(grace_seconds)}
    leaving = threading.Thread(target=DBOS.destroy, kwargs=grace, daemon=True)
    leaving.start()
    leaving.join(grace_seconds + CLOSING_SECONDS)


def migrate(url: str) -> None:
    DBOS.migrate(sqlalchemy_url(url))
