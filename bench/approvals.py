"""From a person's approval to what the outside sees of it."""

import time
from collections import defaultdict

from bench.latency import STRIDE_MS
from bench.machine import floor
from bench.orders import use
from bench.report import Goal, Report, p95
from bench.service import Service, until

RUNS = 100
WARM_UP = 5
GOAL_MS = 250.0
EFFECT = "the tool's effect"


def measure(service: Service) -> Report:
    commit = floor(service.database)
    for _ in range(WARM_UP):
        _approve(service, 0)
    times: defaultdict[str, list[float]] = defaultdict(list)
    for n in range(RUNS):
        for what, found in _approve(service, n * STRIDE_MS % 100).items():
            times[what].append(found)
    report = Report(
        f"Approving, {RUNS} runs one after the other, in ms",
        ("from POST /v1/waits/{id}/resolve to", "p50", "p95", "max", "p50 ÷ floor"),
    )
    for what, each in times.items():
        report.add_times(what, each, commit)
    report.goals.append(Goal(f"an approval to {EFFECT}, p95", p95(times[EFFECT]), GOAL_MS, "ms"))
    report.notes.append(f"Floor (INSERT and commit): {commit:.3f} ms.")
    return report


def _approve(service: Service, pause_ms: float) -> dict[str, float]:
    service.tell_model("forget")
    run = service.submit(use("pay", 1), "clerk")
    asked = service.settled(run)["waiting_for"][0]["id"]
    time.sleep(pause_ms / 1000)
    began = time.monotonic_ns()
    service.allow(asked)
    answered = time.monotonic_ns()
    until(lambda: service.tally() == 2, f"{run} goes on", 30)
    ends = {
        "its 200": answered,
        EFFECT: service.effects()[0]["at"],
        "the model's next request": service.arrivals()[-1]["at"],
    }
    service.wait(run)
    return {what: (end - began) / 1e6 for what, end in ends.items()}
