"""A database that refuses writes, or that stops in the middle of one."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
from psycopg import sql

from tests.support.polling import eventually

REFUSE = """
    create sequence public.refusals;
    create function public.refuse() returns trigger language plpgsql as $$
    begin
        perform nextval('public.refusals');  -- outlives the rollback
        raise exception 'writes are refused' using errcode = {};
    end $$;
"""
REFUSED = "select last_value from public.refusals where is_called"

HOLD = """
    create function public.hold() returns trigger language plpgsql as $$
    begin
        perform pg_advisory_xact_lock_shared(7065, 7264);
        return new;
    end $$;
"""
LOCK = "select pg_advisory_lock(7065, 7264)"
UNLOCK = "select pg_advisory_unlock(7065, 7264)"
WAITERS = """
    select pid from pg_locks
    where locktype = 'advisory' and classid = 7065 and objid = 7264 and not granted
"""
LEDGER_WAITERS = """
    select pid from pg_locks
    where relation = 'perdure.calls'::regclass and not granted
"""

ROW_WAITERS = """
    select pid from pg_stat_activity
    where datname = current_database() and wait_event in ('transactionid', 'tuple')
"""


@contextmanager
def refused_writes(
    database_url: str, condition: str = "true", errcode: str = "insufficient_privilege"
) -> Iterator["Refusal"]:
    """No row of the ledger that fits `condition` can be written while this is open."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(sql.SQL(REFUSE).format(errcode))
        connection.execute(
            sql.SQL(
                "create trigger refuse before insert or update on perdure.calls "
                "for each row when ({}) execute function public.refuse()"
            ).format(sql.SQL(condition))
        )
        try:
            yield Refusal(connection)
        finally:
            connection.execute("drop function public.refuse cascade; drop sequence public.refusals")


@dataclass(frozen=True)
class Refusal:
    """Counts what was refused, although it was rolled back."""

    connection: psycopg.Connection

    async def happened(self) -> None:
        async def probe() -> bool:
            return self.connection.execute(REFUSED).fetchone() is not None

        await eventually(probe, "a write was refused")


@contextmanager
def held_event(database_url: str, seq: int) -> Iterator["HeldEvent"]:
    """The transaction that writes event `seq` of a run stops inside, until `release`."""
    trigger = sql.SQL(
        "create trigger hold before insert on perdure.events "
        "for each row when (new.seq = {}) execute function public.hold()"
    )
    with _holding(database_url, trigger.format(seq)) as held:
        yield held


@contextmanager
def held_commit(database_url: str, event: str) -> Iterator["HeldEvent"]:
    """A transaction that wrote an event of this type stops in its commit, until `release`.

    It needs its client no more: let go, it commits although that has been killed."""
    trigger = sql.SQL(
        "create constraint trigger hold after insert on perdure.events "
        "deferrable initially deferred "
        "for each row when (new.type = {}) execute function public.hold()"
    )
    with _holding(database_url, trigger.format(event)) as held:
        yield held


@contextmanager
def _holding(database_url: str, trigger: sql.Composed) -> Iterator["HeldEvent"]:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(HOLD)
        connection.execute(trigger)
        connection.execute(LOCK)
        try:
            yield HeldEvent(connection)
        finally:
            connection.execute(UNLOCK)
            connection.execute("drop function public.hold cascade")


@dataclass(frozen=True)
class HeldEvent:
    """A transaction of a process under test that is neither committed nor rolled back."""

    connection: psycopg.Connection

    async def reached(self, holding: int = 1) -> None:
        async def probe() -> bool:
            return len(self._waiters()) >= holding

        await eventually(probe, f"{holding} events were about to be written")

    def roll_back(self) -> None:
        """The transaction is lost."""
        for pid in self._waiters():
            self.connection.execute("select pg_terminate_backend(%s)", [pid])

    def release(self) -> None:
        """What still waits goes on, and commits if it can."""
        self.connection.execute(UNLOCK)

    def end(self, how: str) -> None:
        """`rolled_back` or `committed`, after its client has been killed."""
        if how == "rolled_back":
            self.roll_back()
        self.release()

    def _waiters(self) -> list[int]:
        return [pid for (pid,) in self.connection.execute(WAITERS)]


@contextmanager
def locked_ledger(database_url: str) -> Iterator["LockedLedger"]:
    """Whoever touches the ledger waits while this is open."""
    with (
        psycopg.connect(database_url) as holder,
        psycopg.connect(database_url, autocommit=True) as observer,
    ):
        holder.execute("lock table perdure.calls in access exclusive mode")
        yield LockedLedger(observer)
        holder.rollback()


@dataclass(frozen=True)
class LockedLedger:
    """Sees who waits for the ledger."""

    observer: psycopg.Connection

    async def awaited(self) -> None:
        async def probe() -> bool:
            return self.observer.execute(LEDGER_WAITERS).fetchone() is not None

        await eventually(probe, "somebody waited for the ledger")


async def awaited_row(database_url: str) -> None:
    """Returns once a transaction waits for a row that another one holds."""
    with psycopg.connect(database_url, autocommit=True) as connection:

        async def probe() -> bool:
            return connection.execute(ROW_WAITERS).fetchone() is not None

        await eventually(probe, "somebody waited for a row")
