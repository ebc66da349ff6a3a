"""DBOS's way to the database. While that is away, it is waited for here, in short steps.

DBOS tries again by itself, but after pauses that grow to a minute and a half; all that it sees of
an outage is the one error of the statement that was cut off.
"""

import logging
import time
from collections.abc import Callable
from typing import Any

import psycopg
import sqlalchemy
from psycopg.errors import DiskFull
from sqlalchemy import event

from app.store.db import REACH, sqlalchemy_url

log = logging.getLogger(__name__)

POOL = 20
PAUSE = 0.3
TOLD_EACH = 10.0
# Waiting for a connection, too, must never end in a pause: in an outage all of them are held by
# those who wait for the database.
PATIENCE = 86400.0
SESSION = "-c idle_in_transaction_session_timeout=15s"


class Leaving(Exception):
    """This process ends before the database is back. No error of a database: DBOS gives up."""


def make(url: str, is_leaving: Callable[[], bool]) -> sqlalchemy.Engine:
    """`is_leaving`: whether this process will do nothing more with a database that comes back."""
    engine = sqlalchemy.create_engine(
        sqlalchemy_url(url),
        pool_size=POOL,
        max_overflow=0,
        pool_timeout=PATIENCE,
        pool_pre_ping=True,
        # The connection used last is used next: its statements are prepared already.
        pool_use_lifo=True,
        # One that only reads, in the middle of a failover, is of no use to DBOS.
        connect_args={**REACH, "options": SESSION, "target_session_attrs": "read-write"},
    )
    waiter = _Waiter(is_leaving)
    event.listen(engine, "do_connect", waiter.connect)
    event.listen(engine, "handle_error", waiter.note)
    return engine


class _Waiter:
    def __init__(self, is_leaving: Callable[[], bool]) -> None:
        self._is_leaving = is_leaving
        self._refused: tuple[Any, Any] | None = None

    def note(self, context: sqlalchemy.ExceptionContext) -> None:
        """A full disk is waited for as well, on a new connection and without a lock."""
        if isinstance(context.original_exception, DiskFull) and context.statement is not None:
            self._refused = context.statement, context.parameters
            context.is_disconnect = True

    def connect(
        self, dialect: sqlalchemy.Dialect, _: object, args: list[Any], options: dict[str, Any]
    ) -> object:
        told = -TOLD_EACH
        while True:
            try:
                connection: Any = dialect.connect(*args, **options)
                self._try_refused(connection)
                return connection
            except psycopg.OperationalError as error:
                if self._is_leaving():
                    raise Leaving from error
                if time.monotonic() - told >= TOLD_EACH:
                    log.warning("waiting for the database: %s", error)
                    told = time.monotonic()
            time.sleep(PAUSE)

    def _try_refused(self, connection: psycopg.Connection) -> None:
        """Whether there is room again shows only in what there was no room for; undone at once."""
        if (refused := self._refused) is None:
            return
        try:
            connection.execute("set local lock_timeout = '1s'")
            connection.execute(*refused)
        except DiskFull:
            connection.close()
            raise
        except psycopg.Error as error:
            log.debug("this will be told to whoever meets it: %s", error)
        connection.rollback()
        self._refused = None
