"""Bytes that a turn leaves in the database, in short runs and in long ones.

Each length gets a database of its own and about as many turns in all, so that whole pages weigh the
same. What a run costs whatever its length is measured on runs of one answer, and subtracted.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager

import psycopg

from bench.orders import use
from bench.report import Goal, Report
from bench.service import Service

TURNS_IN_ALL = 1200
LENGTHS = (10, 100, 300)
GOAL_RATIO = 1.2

Sizes = dict[str, float]
Start = Callable[[str], AbstractContextManager[Service]]

SIZES = """
    select n.nspname || '.' || c.relname, pg_total_relation_size(c.oid)::float8
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname in ('perdure', 'dbos') and c.relkind = 'r'
"""


def measure(start: Start) -> Report:
    count = TURNS_IN_ALL // LENGTHS[0]
    fixed = {name: size / count for name, size in _grow(start, "size_0", count, 0).items()}
    found = {}
    for length in LENGTHS:
        count = TURNS_IN_ALL // length
        grown = _grow(start, f"size_{length}", count, length)
        found[length] = {
            name: (size - count * fixed[name]) / (count * length) for name, size in grown.items()
        }
    return _report(found, fixed)


def _grow(start: Start, name: str, count: int, length: int) -> Sizes:
    """What `count` runs of `length` turns and one last answer add to each table."""
    with start(name) as service:
        before = _sizes(service.database)
        service.wait(*[service.submit(use("at_most_once", length)) for _ in range(count)])
        after = _sizes(service.database)
    return {name: size - before[name] for name, size in after.items()}


def _sizes(database: str) -> Sizes:
    """With indexes and TOAST."""
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("checkpoint")
        return dict(connection.execute(SIZES).fetchall())


def _report(found: dict[int, Sizes], fixed: Sizes) -> Report:
    report = Report(
        "Bytes in the database per turn, by the length of the run",
        ("table, with indexes", *(f"{length} turns" for length in found), "a run by itself"),
    )
    columns = [*found.values(), fixed]
    for name in sorted(fixed, key=lambda name: -found[LENGTHS[-1]][name]):
        if any(column[name] >= 1 for column in columns):
            report.add(name, *(f"{column[name]:.0f}" for column in columns))
    totals = [sum(column.values()) for column in columns]
    report.add("all", *(f"{total:.0f}" for total in totals))
    shortest, longest = totals[0], totals[len(LENGTHS) - 1]
    report.goals.append(
        Goal("bytes per turn, 300 turns ÷ 10 turns", longest / shortest, GOAL_RATIO, "times")
    )
    report.notes.append(
        "A turn here is one short sentence, one call with a number, and its result."
    )
    return report
