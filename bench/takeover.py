"""From the death of a worker to the next step of its runs."""

import os
import signal
import statistics
import time
from collections.abc import Callable

from bench.machine import floor
from bench.orders import use
from bench.report import Goal, Report, p95
from bench.service import Service, until

KILLS, FREEZES, RESTARTS = 20, 3, 3
IN_FLIGHT = 500
WITHIN = 60.0
GOAL_KILLED, GOAL_FROZEN = 0.5, 12.0
SETTINGS = {
    "PERDURE_WORKER_CONCURRENCY": str(IN_FLIGHT),
    "PERDURE_QUEUE_KEY_WORKER_CONCURRENCY": str(IN_FLIGHT),
}


def measure(service: Service) -> Report:
    commit = floor(service.database)
    report = Report(
        "From a death to the next model request, in s", ("what happens", "p50", "p95", "max")
    )
    restarted = [_restart(service) for _ in range(RESTARTS)]
    service.start_worker()
    killed = [_lose(service, _kill) for _ in range(KILLS)]
    frozen = [_lose(service, _freeze) for _ in range(FREEZES)]
    for what, times in (
        ("kill -9, a second worker lives", killed),
        ("a freeze, a second worker lives", frozen),
        ("kill -9 of the only worker, started again", restarted),
    ):
        worst = p95(times) if len(times) > FREEZES else max(times)
        report.add(what, f"{statistics.median(times):.2f}", f"{worst:.2f}", f"{max(times):.2f}")
    report.goals += [
        Goal("kill -9 to the next step, p95", p95(killed), GOAL_KILLED, "s"),
        Goal("a freeze to the next step, longest", max(frozen), GOAL_FROZEN, "s"),
    ]
    report.notes += [
        f"{KILLS} kills, {FREEZES} freezes, {RESTARTS} restarts, one run in a model call each; a "
        "restart holds the start of the interpreter.",
        _recover_many(service),
        f"Floor (INSERT and commit): {commit:.3f} ms.",
    ]
    return report


def _lose(service: Service, lose: Callable[[Service, int], float]) -> float:
    """Seconds until the other worker asks the model again."""
    run = _stall(service)
    began = lose(service, service.owner(run))
    seconds = _next_request(service, began)
    service.start_worker()
    _finish(service, run)
    return seconds


def _restart(service: Service) -> float:
    run = _stall(service)
    service.start.kill(service.owner(run))
    began = time.monotonic()
    service.start_worker(await_it=False)
    seconds = _next_request(service, began)
    _finish(service, run)
    return seconds


def _recover_many(service: Service) -> str:
    """All runs are one worker's; another one takes them over."""
    doomed = _stall_many(service)
    began = _kill(service, doomed)
    until(lambda: service.tally() == 2 * IN_FLIGHT, f"{IN_FLIGHT} legs are recovered", WITHIN * 3)
    last = service.arrivals()[-1]["at"] / 1e9 - began
    service.tell_model("release")
    return (
        f"{IN_FLIGHT} runs in flight: all recovered in {last:.1f} s, {IN_FLIGHT / last:.0f} legs/s."
    )


def _stall_many(service: Service) -> int:
    """The worker that carries all of them; a second one is there by then."""
    for worker in service.start.workers():
        service.start.kill(worker)
    doomed = service.start_worker()
    service.tell_model("forget")
    service.tell_model("shut")
    for _ in range(IN_FLIGHT):
        service.submit(use("read_only", 0))
    until(lambda: service.tally() == IN_FLIGHT, "all wait for the model", WITHIN * 3)
    service.start_worker()
    return doomed


def _stall(service: Service) -> str:
    """A run in its first model call."""
    service.tell_model("forget")
    service.tell_model("shut")
    run = service.submit(use("read_only", 0))
    until(lambda: service.tally() == 1, f"{run} waits for the model", WITHIN)
    return run


def _next_request(service: Service, began: float) -> float:
    until(lambda: service.tally() == 2, "the model is asked again", WITHIN)
    return float(service.arrivals()[-1]["at"] / 1e9 - began)


def _finish(service: Service, run: str) -> None:
    service.tell_model("release")
    service.wait(run)


def _kill(service: Service, worker: int) -> float:
    began = time.monotonic()
    service.start.kill(worker)
    return began


def _freeze(service: Service, worker: int) -> float:
    began = time.monotonic()
    os.kill(worker, signal.SIGSTOP)
    return began
