"""`python -m bench [NAME…]`: measures, prints tables, and exits 1 if a goal is missed."""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from rich.console import Console

from app.cli.embedded import Cluster
from bench import (
    approvals,
    burst,
    idle,
    latency,
    load,
    machine,
    memory,
    parked,
    replay,
    size,
    streams,
    takeover,
    turns,
    workers,
)
from bench.report import Goal, Report
from bench.service import Service, Stuck, running

SHARED: dict[str, Callable[[Service], Report]] = {
    "turns": turns.measure,
    "latency": latency.measure,
    "load": load.measure,
    "memory": memory.measure,
    "approvals": approvals.measure,
    "parked": parked.measure,
    "takeover": takeover.measure,
    "replay": replay.measure,
    "idle": idle.measure,
    "workers": workers.measure,
    "burst": burst.measure,
    "streams": streams.measure,
}
SETTINGS = {"takeover": takeover.SETTINGS}
NAMES = (*SHARED, "size")


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}")
    names = parser.parse_args().names or NAMES
    if unknown := set(names) - set(NAMES):
        parser.error(f"there is no {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    console = Console(width=100)
    with _cluster() as (cluster, logs):
        console.print(machine.describe(cluster), highlight=False, soft_wrap=True)
        goals = [goal for name in names for goal in _run(console, cluster, logs, name)]
    console.print("\n## Goals\n")
    for goal in goals:
        console.print(f"- {goal}", highlight=False, soft_wrap=True)
    return 0 if all(goal.is_met for goal in goals) else 1


def _run(console: Console, cluster: Cluster, logs: Path, name: str) -> list[Goal]:
    others = machine.Others(cluster)
    if name == "size":
        report = size.measure(partial(running, cluster, logs=logs))
    else:
        with running(cluster, f"bench_{name}", logs, **SETTINGS.get(name, {})) as service:
            report = SHARED[name](service)
    taken = others.cores()
    report.notes.append(f"Meanwhile others used {taken:.2f} of {os.cpu_count()} cores.")
    if taken > machine.BUSY:
        report.notes.append("WARNING: the machine is busy; repeat this when it is quiet.")
    report.show(console)
    return report.goals


@contextmanager
def _cluster() -> Iterator[tuple[Cluster, Path]]:
    """An embedded Postgres as `perdure dev` starts it, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="perdure-bench-", ignore_cleanup_errors=True) as place:
        cluster = Cluster(Path(place) / "data")
        try:
            cluster.start()
            yield cluster, Path(place)
        finally:
            cluster.destroy()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Stuck as stuck:
        sys.exit(f"Not measured: {stuck}")
