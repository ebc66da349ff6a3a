"""Many runs that wait for a person: what they hold meanwhile, and how they all go on."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from bench.held import Held, count_runs, look
from bench.orders import use, with_content
from bench.report import Goal, Report
from bench.service import Service, until

T = TypeVar("T")

RUNS = 2000
CONTENT_BYTES = 100_000
# A few, which load the code, and twice as many as a worker carries at once, which open its pools.
FEW, WIDE = 10, 200
CLIENTS = 8
PATIENCE_SECONDS = 900.0
GOAL_MB = 10.0
# Pools of threads and connections may open further; what each run held would make it 2,000.
GOAL_GROWN = RUNS / 50
GOAL_SECONDS = 5.0
ALIVE = ("queued", "running", "waiting", "cancelling")


def measure(service: Service) -> Report:
    _allow(service, _park(service, FEW))
    few = look(service)
    _allow(service, _park(service, WIDE))
    idle = look(service)
    began = time.monotonic()
    waits = _park(service, RUNS)
    parking = time.monotonic() - began
    parked = look(service)
    plain = _carry_out_one(service)
    resuming = _allow(service, waits)
    ended = look(service)
    report = _table({"few": few, "idle": idle, "parked": parked, "ended": ended})
    report.goals += [*_goals_of_parked(idle, parked, plain), *_goals_of_ended(service, idle, ended)]
    report.notes += [
        f"Each run has {CONTENT_BYTES / 1000:g} kB of its own content. {CLIENTS} clients submitted "
        f"them; all were parked after {parking:.0f} s. Then another run took {plain:.2f} s.",
        f"The same clients approved them; all had succeeded after {resuming:.0f} s: "
        f"{RUNS / resuming:.1f} runs/s.",
    ]
    return report


def _park(service: Service, count: int) -> list[str]:
    """So many runs more; what they wait for, once all of them do."""
    orders = [with_content(use("pay", 1), CONTENT_BYTES) for _ in range(count)]
    _at_once(partial(service.submit, agent="clerk"), orders)
    until(lambda: count_runs(service, "waiting") == count, "all are parked", PATIENCE_SECONDS)
    return service.open_waits()


def _allow(service: Service, waits: Sequence[str]) -> float:
    """Seconds from the first approval until all runs have ended."""
    service.tell_model("forget")
    began = time.monotonic()
    _at_once(service.allow, waits)
    until(lambda: count_runs(service, *ALIVE) == 0, "all have ended", PATIENCE_SECONDS)
    return time.monotonic() - began


def _at_once(act: Callable[[str], T], on: Sequence[str]) -> list[T]:
    with ThreadPoolExecutor(CLIENTS) as clients:
        return list(clients.map(act, on))


def _carry_out_one(service: Service) -> float:
    began = time.monotonic()
    run = service.submit(use("read_only", 1))
    until(
        lambda: service.settled(run)["status"] == "succeeded", f"{run} succeeds", GOAL_SECONDS * 10
    )
    return time.monotonic() - began


def _table(found: dict[str, Held]) -> Report:
    names = {
        "few": f"{FEW} runs have ended",
        "idle": f"idle: {WIDE} more at once have ended",
        "parked": f"{RUNS} more are parked",
        "ended": f"these {RUNS} have ended",
    }
    report = Report(
        f"{RUNS} runs parked on an approval",
        ("", "API, MB", "worker, MB", "threads", "connections", "legs in DBOS"),
    )
    for state, held in found.items():
        report.add(names[state], *held.cells())
    return report


def _goals_of_parked(idle: Held, parked: Held, plain: float) -> list[Goal]:
    threads = (parked.api_threads + parked.worker_threads) - (
        idle.api_threads + idle.worker_threads
    )
    connections = parked.connections - idle.connections
    return [
        Goal(f"API over idle, {RUNS} parked", parked.api_mb - idle.api_mb, GOAL_MB, "MB"),
        Goal(f"worker over idle, {RUNS} parked", parked.worker_mb - idle.worker_mb, GOAL_MB, "MB"),
        Goal(f"more threads, {RUNS} parked", threads, GOAL_GROWN, "threads"),
        Goal(f"more connections, {RUNS} parked", connections, GOAL_GROWN, "connections"),
        Goal(f"queued or running legs, {RUNS} parked", parked.slots, 0, "legs"),
        Goal(f"a run beside {RUNS} parked", plain, GOAL_SECONDS, "s"),
    ]


def _goals_of_ended(service: Service, idle: Held, ended: Held) -> list[Goal]:
    keys = [effect["key"] for effect in service.effects()]
    # WIDE and FEW and the run beside them have succeeded too.
    left = RUNS + WIDE + FEW + 1 - count_runs(service, "succeeded")
    return [
        Goal("approved runs that did not succeed", left, 0, "runs"),
        Goal("approved effects that are missing", RUNS - len(set(keys)), 0, "effects"),
        Goal("approved effects that came twice", len(keys) - len(set(keys)), 0, "effects"),
        Goal(f"API over idle, {RUNS} ended", ended.api_mb - idle.api_mb, GOAL_MB, "MB"),
        Goal(f"worker over idle, {RUNS} ended", ended.worker_mb - idle.worker_mb, GOAL_MB, "MB"),
    ]
