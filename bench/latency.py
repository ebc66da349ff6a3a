"""From submitting a run to its first request at the model."""

import time

from bench.machine import floor
from bench.report import Report
from bench.service import Service, until

RUNS = 100
# Steps through the phase of every poll in the system, rather than locking on to it.
STRIDE_MS = 7.3


def measure(service: Service) -> Report:
    commit = floor(service.database)
    accepted, started = [], []
    for n in range(RUNS):
        time.sleep(n * STRIDE_MS % 100 / 1000)
        service.tell_model("forget")
        began = time.monotonic_ns()
        run = service.submit("read_only 0 end")
        accepted.append((time.monotonic_ns() - began) / 1e6)
        until(lambda: service.tally() > 0, f"{run} begins", 30)
        started.append((service.arrivals()[0]["at"] - began) / 1e6)
        service.wait(run)
    report = Report(
        f"Submitting, {RUNS} runs one after the other, in ms",
        ("from POST /v1/runs to", "p50", "p95", "max", "p50 ÷ floor"),
    )
    for what, times in (("its 202", accepted), ("the first model request", started)):
        report.add_times(what, times, commit)
    report.notes.append(f"Floor (INSERT and commit): {commit:.3f} ms.")
    return report
