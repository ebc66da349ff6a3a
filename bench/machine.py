"""The machine: what it is, what a commit costs on it, and who else is using it."""

import os
import platform
import statistics
import time
from collections.abc import Iterator
from contextlib import suppress

import psutil
import psycopg

from app.cli.embedded import Cluster

INSERTS = 200
# Cores that others use while we measure; above this the figures say little.
BUSY = 0.15


def describe(cluster: Cluster) -> str:
    with psycopg.connect(cluster.url()) as connection:
        settings = {
            name: _show(connection, name) for name in ("server_version", "fsync", "wal_sync_method")
        }
    if settings["fsync"] != "on":
        raise SystemExit("These benchmarks mean nothing with fsync off.")
    memory = psutil.virtual_memory().total / 2**30
    return (
        f"{_processor()}, {os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()}; "
        f"Python {platform.python_version()}, PostgreSQL {settings['server_version']}, fsync on "
        f"({settings['wal_sync_method']})"
    )


def floor(database: str) -> float:
    """The median of a single-row INSERT with its commit, in ms, over the same socket."""
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("create table if not exists public.floor (n integer)")
        return statistics.median(_insert_times(connection))


def _insert_times(connection: psycopg.Connection) -> Iterator[float]:
    for n in range(INSERTS):
        began = time.perf_counter()
        connection.execute("insert into public.floor values (%s)", [n])
        yield (time.perf_counter() - began) * 1000


class Others:
    """How many cores were used by anything but this benchmark and its database, since the start."""

    def __init__(self, cluster: Cluster) -> None:
        self._roots = [os.getpid(), *([cluster.pid] if cluster.pid else [])]
        self._began = time.monotonic()
        self._machine, self._ours = machine_seconds(), self._our_seconds()

    def cores(self) -> float:
        used = machine_seconds() - self._machine
        ours = self._our_seconds() - self._ours
        return max(used - ours, 0.0) / (time.monotonic() - self._began)

    def _our_seconds(self) -> float:
        return sum(tree_seconds(root) for root in self._roots)


def machine_seconds() -> float:
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - getattr(times, "iowait", 0.0))


def tree_seconds(root: int) -> float:
    """Those of children that have ended count with their parents."""
    total = 0.0
    process = psutil.Process(root)
    for each in [process, *process.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):
            total += sum(each.cpu_times()[:4])
    return total


def _processor() -> str:
    with suppress(OSError), open("/proc/cpuinfo") as file:
        for line in file:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _show(connection: psycopg.Connection, name: str) -> str:
    found = connection.execute("select current_setting(%s)", [name]).fetchone()
    assert found is not None
    return str(found[0])
