"""A database that refuses writes, or that stops in the middle of one."""

import itertools
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import psycopg
from psycopg import sql

from tests.support.polling import eventually

# So that one transaction can be held while another is.
KEYS = itertools.count(1)

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
    create function public.{function}() returns trigger language plpgsql as $$
    begin
        perform pg_advisory_xact_lock_shared(7065, {key});
        return new;
    end $$;
"""
LOCK = "select pg_advisory_lock(7065, %s)"
UNLOCK = "select pg_advisory_unlock(7065, %s)"
WAITERS = """
    select pid from pg_locks
    where locktype = 'advisory' and classid = 7065 and objid = %s and not granted
"""
TABLE_WAITERS = """
    select pid from pg_locks where relation = %s::regclass and not granted
"""

ROW_WAITERS = """
    select pid from pg_stat_activity
    where datname = current_database() and wait_event in ('transactionid', 'tuple')
"""


@contextmanager
def refused_writes(
    database_url: str,
    condition: str = "true",
    errcode: str = "insufficient_privilege",
    tables: Sequence[str] = ("perdure.calls",),
) -> Iterator["Refusal"]:
    """No row of the ledger that fits `condition` can be written while this is open."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(sql.SQL(REFUSE).format(errcode))
        for table in tables:
            connection.execute(
                sql.SQL(
                    "create trigger refuse before insert or update on {} "
                    "for each row when ({}) execute function public.refuse()"
                ).format(sql.Identifier(*table.split(".")), sql.SQL(condition))
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
        "create trigger {name} before insert on perdure.events "
        "for each row when (new.seq = {value}) execute function public.{name}()"
    )
    with _holding(database_url, trigger, seq) as held:
        held.hold()
        yield held


@contextmanager
def held_commit(database_url: str, event: str) -> Iterator["HeldEvent"]:
    """A transaction that wrote an event of this type stops in its commit, until `release`.

    It needs its client no more: let go, it commits although that has been killed."""
    with commits_to_hold(database_url, event) as (held,):
        held.hold()
        yield held


@contextmanager
def commits_to_hold(database_url: str, *events: str) -> Iterator[list["HeldEvent"]]:
    """The same for several events, each from its own `hold` on."""
    trigger = sql.SQL(
        "create constraint trigger {name} after insert on perdure.events "
        "deferrable initially deferred "
        "for each row when (new.type = {value}) execute function public.{name}()"
    )
    with ExitStack() as stack:
        yield [stack.enter_context(_holding(database_url, trigger, event)) for event in events]


@contextmanager
def _holding(database_url: str, trigger: sql.SQL, value: str | int) -> Iterator["HeldEvent"]:
    key = next(KEYS)
    name = sql.Identifier(f"hold_{key}")
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(sql.SQL(HOLD).format(function=name, key=key))
        connection.execute(trigger.format(name=name, value=value))
        held = HeldEvent(connection, key)
        try:
            yield held
        finally:
            held.release()
            connection.execute(sql.SQL("drop function public.{} cascade").format(name))


@dataclass(frozen=True)
class HeldEvent:
    """A transaction of a process under test that is neither committed nor rolled back."""

    connection: psycopg.Connection
    key: int

    def hold(self) -> None:
        self.connection.execute(LOCK, [self.key])

    async def reached(self, holding: int = 1) -> None:
        async def probe() -> bool:
            return len(self._waiters()) >= holding

        await eventually(probe, f"{holding} events were about to be written")

    async def cut_off(self) -> None:
        """Returns once nobody waits any more of those that do now, and have not been let go."""
        waiting = set(self._waiters())

        async def probe() -> bool:
            return waiting.isdisjoint(self._waiters())

        await eventually(probe, "those that were held have been cut off")

    def roll_back(self) -> None:
        """The transaction is lost."""
        for pid in self._waiters():
            self.connection.execute("select pg_terminate_backend(%s)", [pid])

    def release(self) -> None:
        """What still waits goes on, and commits if it can."""
        self.connection.execute(UNLOCK, [self.key])

    def end(self, how: str) -> None:
        """`rolled_back` or `committed`, after its client has been killed."""
        if how == "rolled_back":
            self.roll_back()
        self.release()

    def _waiters(self) -> list[int]:
        return [pid for (pid,) in self.connection.execute(WAITERS, [self.key])]


@contextmanager
def locked_table(database_url: str, table: str) -> Iterator["LockedTable"]:
    """Whoever touches it waits while this is open."""
    name = sql.Identifier(*table.split("."))
    with (
        psycopg.connect(database_url) as holder,
        psycopg.connect(database_url, autocommit=True) as observer,
    ):
        holder.execute(sql.SQL("lock table {} in access exclusive mode").format(name))
        yield LockedTable(observer, table)
        holder.rollback()


@dataclass(frozen=True)
class LockedTable:
    """Sees who waits for it."""

    observer: psycopg.Connection
    table: str

    async def awaited(self) -> None:
        async def probe() -> bool:
            return self.observer.execute(TABLE_WAITERS, [self.table]).fetchone() is not None

        await eventually(probe, f"somebody waited for {self.table}")

    def cut_off(self) -> None:
        """Ends the sessions of those who wait."""
        for (pid,) in self.observer.execute(TABLE_WAITERS, [self.table]).fetchall():
            self.observer.execute("select pg_terminate_backend(%s)", [pid])


@contextmanager
def held_row(
    database_url: str, table: str, column: str, value: str
) -> Iterator[psycopg.Connection]:
    """Whoever changes this row waits, until the connection rolls back or this is over."""
    with psycopg.connect(database_url) as holder:
        holder.execute(
            sql.SQL("select from {} where {} = {} for update").format(
                sql.Identifier(*table.split(".")), sql.Identifier(column), value
            )
        )
        yield holder
        holder.rollback()


async def awaited_row(database_url: str) -> None:
    """Returns once a transaction waits for a row that another one holds."""
    with psycopg.connect(database_url, autocommit=True) as connection:

        async def probe() -> bool:
            return connection.execute(ROW_WAITERS).fetchone() is not None

        await eventually(probe, "somebody waited for a row")
