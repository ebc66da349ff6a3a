"""A burst of runs under one queue key on two workers, and what becomes of another key meanwhile."""

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial
from typing import cast

import psutil
import psycopg

from bench.held import count_runs
from bench.machine import machine_seconds, tree_seconds
from bench.orders import use
from bench.report import Goal, Report
from bench.service import Service, Stuck, until

RUNS = 2000
MODEL_MS = 20
CLIENTS = 8
# The other key submits one run after the other, so often.
EVERY_SECONDS = 1.0
PATIENCE_SECONDS = 600.0
GOAL_IDLE = 15.0
GOAL_SECONDS = 5.0
# A run of the other key takes its turns on busy cores, as those of the burst that are in hand do.
GOAL_RATIO = 2.0
TIMES = """
    select extract(epoch from avg(finished_at - started_at) filter (
            where queue_key = 'burst' and started_at > %(released)s)),
        extract(epoch from max(started_at - created_at) filter (where queue_key = 'other')),
        extract(epoch from avg(finished_at - created_at) filter (where queue_key = 'other'))
    from perdure.runs
"""

Used = dict[str, float]


def measure(service: Service) -> Report:
    service.start_worker()
    service.tell_model(f"pause?ms={MODEL_MS}")
    accepting = _submit_all(service)
    before, began = _used(service), time.monotonic()
    released = _clock(service)
    service.tell_model("release")
    beside_it = sum(1 for _ in _run_beside(service))
    seconds = time.monotonic() - began
    used = {part: at - before[part] for part, at in _used(service).items()}
    left = RUNS + beside_it - count_runs(service, "succeeded")
    inside, waited, beside = _times(service, released)
    report = _table(seconds, used)
    idle = 100 * (1 - used.pop("machine") / seconds / (os.cpu_count() or 1))
    report.goals += [
        Goal("idle cores during the burst", idle, GOAL_IDLE, "%"),
        Goal("longest wait of the other key for a slot", waited, GOAL_SECONDS, "s"),
        Goal(
            "a run of the other key ÷ one of the burst in hand",
            beside / inside,
            GOAL_RATIO,
            "times",
        ),
        Goal("runs that did not succeed", left, 0, "runs"),
    ]
    report.notes += [
        f"{CLIENTS} clients submitted them in {accepting:.0f} s, while the model gave no answer. "
        f"Then all had succeeded after {seconds:.0f} s: {RUNS / seconds:.1f} runs/s. A run has two "
        f"model calls of {MODEL_MS} ms and one tool call.",
        f"Each was in hand for {inside:.2f} s on average. Meanwhile {beside_it} runs of "
        f"another key waited {waited:.2f} s for a slot at most and took {beside:.2f} s on average.",
    ]
    return report


def _submit_all(service: Service) -> float:
    service.tell_model("shut")
    began = time.monotonic()
    with ThreadPoolExecutor(CLIENTS) as clients:
        submit = partial(service.submit, queue_key="burst")
        list(clients.map(submit, [use("read_only", 1)] * RUNS))
    return time.monotonic() - began


def _run_beside(service: Service) -> Iterator[str]:
    """Runs of the other key, one after the other, until the burst is over."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        began = time.monotonic()
        run = service.submit(use("read_only", 1), queue_key="other")
        until(partial(_has_succeeded, service, run), f"{run} succeeds", PATIENCE_SECONDS)
        yield run
        if count_runs(service, "queued", "running", "waiting") == 0:
            return
        if time.monotonic() > deadline:
            raise Stuck(f"the burst is not over after {PATIENCE_SECONDS:g} s")
        time.sleep(max(EVERY_SECONDS - (time.monotonic() - began), 0))


def _has_succeeded(service: Service, run: str) -> bool:
    return bool(service.settled(run)["status"] == "succeeded")


def _clock(service: Service) -> datetime:
    with psycopg.connect(service.database) as connection:
        found = connection.execute("select clock_timestamp()").fetchone()
    assert found is not None
    return cast(datetime, found[0])


def _times(service: Service, released: datetime) -> tuple[float, float, float]:
    """Seconds: a run of the burst in hand; another's longest wait for a slot; another's whole."""
    with psycopg.connect(service.database) as connection:
        found = connection.execute(TIMES, {"released": released}).fetchone()
    assert found is not None
    inside, waited, beside = (float(value) for value in found)
    return inside, waited, beside


def _used(service: Service) -> Used:
    """Seconds of CPU so far."""
    with psycopg.connect(service.database) as connection:
        database = psutil.Process(connection.info.backend_pid).ppid()
    workers = service.start.workers()
    named = {f"worker {n}": pid for n, pid in enumerate(workers, 1)} | {"API": service.server}
    named["database"] = database
    return {part: tree_seconds(pid) for part, pid in named.items()} | {"machine": machine_seconds()}


def _table(seconds: float, used: Used) -> Report:
    report = Report(
        f"A burst of {RUNS} runs of one key on two workers",
        ("", "cores in use", "ms of CPU per run"),
    )
    for part, of_part in used.items():
        what = "all on this machine" if part == "machine" else part
        report.add(what, f"{of_part / seconds:.2f}", f"{1000 * of_part / RUNS:.1f}")
    return report
