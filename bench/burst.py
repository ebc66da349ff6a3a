"""A burst of runs under one queue key on two workers, and what becomes of another key meanwhile."""

import os
import statistics
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

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

Used = dict[str, float]


def measure(service: Service) -> Report:
    service.start_worker()
    service.tell_model(f"pause?ms={MODEL_MS}")
    accepting = _submit_all(service)
    before, began = _used(service), time.monotonic()
    service.tell_model("release")
    times = list(_run_beside(service))
    seconds = time.monotonic() - began
    used = {part: at - before[part] for part, at in _used(service).items()}
    left = RUNS + len(times) - count_runs(service, "succeeded")
    report = _table(seconds, used)
    idle = 100 * (1 - used.pop("machine") / seconds / (os.cpu_count() or 1))
    report.goals += [
        Goal("idle cores during the burst", idle, GOAL_IDLE, "%"),
        Goal("longest run of the other key", max(times), GOAL_SECONDS, "s"),
        Goal("runs that did not succeed", left, 0, "runs"),
    ]
    report.notes += [
        f"{CLIENTS} clients submitted them in {accepting:.0f} s, while the model gave no answer. "
        f"Then all had succeeded after {seconds:.0f} s: {RUNS / seconds:.1f} runs/s. A run has two "
        f"model calls of {MODEL_MS} ms and one tool call.",
        f"Meanwhile {len(times)} runs of another key took {statistics.median(times):.2f} s in the "
        f"median and {max(times):.2f} s at most.",
    ]
    return report


def _submit_all(service: Service) -> float:
    service.tell_model("shut")
    began = time.monotonic()
    with ThreadPoolExecutor(CLIENTS) as clients:
        submit = partial(service.submit, queue_key="burst")
        list(clients.map(submit, [use("read_only", 1)] * RUNS))
    return time.monotonic() - began


def _run_beside(service: Service) -> Iterator[float]:
    """Seconds that runs of the other key took, until the burst is over."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        began = time.monotonic()
        run = service.submit(use("read_only", 1), queue_key="other")
        until(partial(_has_succeeded, service, run), f"{run} succeeds", PATIENCE_SECONDS)
        yield time.monotonic() - began
        if count_runs(service, "queued", "running", "waiting") == 0:
            return
        if time.monotonic() > deadline:
            raise Stuck(f"the burst is not over after {PATIENCE_SECONDS:g} s")
        time.sleep(max(EVERY_SECONDS - (time.monotonic() - began), 0))


def _has_succeeded(service: Service, run: str) -> bool:
    return bool(service.settled(run)["status"] == "succeeded")


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
