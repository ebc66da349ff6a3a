"""Steps per second with many runs at once in one worker."""

import psutil

from bench.machine import floor
from bench.report import Report
from bench.service import Service, until

RUNS = 50
TURNS = 20


def measure(service: Service) -> Report:
    commit = floor(service.database)
    report = Report(
        f"{RUNS} runs at once in one worker, {TURNS} turns each",
        ("policy", "steps/s", "turns/s", "ms of worker CPU per step", "worker's cores"),
    )
    for policy in ("read_only", "at_most_once"):
        seconds, worker = _run_all(service, policy)
        steps = 2 * RUNS * TURNS
        report.add(
            policy,
            f"{steps / seconds:.0f}",
            f"{steps / seconds / 2:.0f}",
            f"{1000 * worker / steps:.2f}",
            f"{worker / seconds:.2f}",
        )
    report.notes.append(
        f"Floor (INSERT and commit): {commit:.3f} ms. A step is a model call or a tool call; the "
        "model server, the database and the worker share this machine's cores."
    )
    return report


def _run_all(service: Service, policy: str) -> tuple[float, float]:
    """Seconds of the clock and of the worker's CPU, from the first answer to the last request."""
    service.tell_model("forget")
    service.tell_model("shut")
    runs = [service.submit(f"{policy} {TURNS} end") for _ in range(RUNS)]
    until(lambda: service.tally() == RUNS, "all runs wait for the model", 60)
    worker = psutil.Process(service.worker)
    before = sum(worker.cpu_times()[:2])
    began = service.tell_model("release")
    service.wait(*runs)
    used = sum(worker.cpu_times()[:2]) - before
    return (service.arrivals()[-1]["at"] - began) / 1e9, used
