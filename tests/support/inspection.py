"""Looks into the database behind the service's back."""

from datetime import datetime

import psycopg
from psycopg import sql

from app.store.workers import JANITOR

TABLES = """
    select schemaname, tablename from pg_tables
    where schemaname not in ('pg_catalog', 'information_schema')
"""


def notes(database_url: str, run: str) -> list[str]:
    """The texts that the transactional tools of a run wrote, sorted."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        rows = connection.execute("select text from public.notes where run = %s", [run])
        return sorted(text for (text,) in rows)


def pid_of_worker(database_url: str, worker: str) -> int:
    with psycopg.connect(database_url, autocommit=True) as connection:
        row = connection.execute("select pid from perdure.workers where id = %s", [worker])
        (pid,) = row.fetchone() or (None,)
        assert isinstance(pid, int), f"no worker {worker}"
        return pid


def janitor(database_url: str) -> str | None:
    """The worker that is elected."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        row = connection.execute(
            """select w.id from pg_locks l join pg_stat_activity a on a.pid = l.pid
               join perdure.workers w on right(w.id, 63) = a.application_name
               where l.locktype = 'advisory' and l.classid = %s and l.granted
                 and a.datname = current_database()""",
            [JANITOR],
        ).fetchone()
        return None if row is None else str(row[0])


def is_given_up(database_url: str, worker: str) -> bool:
    with psycopg.connect(database_url, autocommit=True) as connection:
        row = connection.execute("select dead_at from perdure.workers where id = %s", [worker])
        (dead_at,) = row.fetchone() or (None,)
        return dead_at is not None


def legs_of(database_url: str, worker: str) -> list[str]:
    """The legs that DBOS takes for running on a worker."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        rows = connection.execute(
            """select workflow_uuid from dbos.workflow_status
               where status = 'PENDING' and executor_id = %s""",
            [worker],
        )
        return [leg for (leg,) in rows]


def connections(database_url: str) -> int:
    """How many there are to this database, less the one that counts them."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        row = connection.execute(
            "select count(*) - 1 from pg_stat_activity where datname = current_database()"
        ).fetchone()
        assert row is not None
        return int(row[0])


def clock(database_url: str) -> datetime:
    """What time the database has."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        (now,) = connection.execute("select clock_timestamp()").fetchone() or (None,)
        assert isinstance(now, datetime)
        return now


def pass_time(database_url: str, run: str, seconds: float) -> None:
    """All that the clock will do to a run comes so much nearer."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(
            """update perdure.waits set deadline = deadline - make_interval(secs => %(seconds)s),
                   remind_at = remind_at - make_interval(secs => %(seconds)s)
               where run = %(run)s and state = 'open'""",
            {"run": run, "seconds": seconds},
        )
        connection.execute(
            """update perdure.runs set deadline = deadline - make_interval(secs => %(seconds)s)
               where root = %(run)s""",
            {"run": run, "seconds": seconds},
        )


def expire_rule(database_url: str, rule: str) -> None:
    """The rule's time is over."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("update perdure.rules set expires_at = now() where id = %s", [rule])


def dump(database_url: str) -> str:
    """Every row of every table as text."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        return "\n".join(
            row
            for schema, table in connection.execute(TABLES).fetchall()
            for (row,) in connection.execute(
                sql.SQL("select t::text from {} t").format(sql.Identifier(schema, table))
            )
        )


def size(database_url: str) -> int:
    """Bytes of all tables, indexes and out-of-line values."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        row = connection.execute("select pg_database_size(current_database())").fetchone()
        assert row is not None
        return int(row[0])


def taken(database_url: str) -> dict[str, int]:
    """What runs hold of the queues and of their provider: legs not ended, places in line."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        row = connection.execute(
            """select (select count(*) from dbos.workflow_status
                       where status in ('ENQUEUED', 'DELAYED', 'PENDING')),
                   (select count(*) from perdure.line where let_in_at is null)"""
        ).fetchone()
        assert row is not None
        return {"legs": row[0], "places": row[1]}
