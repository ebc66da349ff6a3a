"""What a service at rest costs: commits of its polls and duties, and CPU."""

import time

import psutil
import psycopg

from bench.report import Report
from bench.service import Service

SECONDS = 20.0


def measure(service: Service) -> Report:
    report = Report("A service at rest", ("workers", "commits/s", "worker's cores", "API's cores"))
    for count in (1, 2):
        if count > 1:
            service.start_worker()
        report.add(str(count), *_rest(service))
    report.notes.append(
        f"{SECONDS:.0f} s each. Most commits are reads: polls of the queues, each 0.05 s, and the "
        "duties of a worker. The figures of a worker are of the first one."
    )
    return report


def _rest(service: Service) -> tuple[str, str, str]:
    processes = [psutil.Process(pid) for pid in (service.worker, service.server)]
    with psycopg.connect(service.database, autocommit=True) as connection:
        commits, used = _commits(connection), [_seconds(each) for each in processes]
        time.sleep(SECONDS)
        rate = (_commits(connection) - commits) / SECONDS
    cores = [
        (_seconds(process) - before) / SECONDS
        for process, before in zip(processes, used, strict=True)
    ]
    return f"{rate:.0f}", f"{cores[0]:.3f}", f"{cores[1]:.3f}"


def _commits(connection: psycopg.Connection) -> int:
    connection.execute("select pg_stat_clear_snapshot()")
    found = connection.execute(
        "select xact_commit from pg_stat_database where datname = current_database()"
    ).fetchone()
    assert found is not None
    return int(found[0])


def _seconds(process: psutil.Process) -> float:
    return float(sum(process.cpu_times()[:2]))
