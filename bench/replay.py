"""What replaying a leg costs: a leg of many finished steps against one of none."""

import statistics
import time

from bench.machine import floor
from bench.orders import use
from bench.report import Report
from bench.service import Service, until

# A leg hands off after 50 turns.
TURNS = 49
ROUNDS = 5
WITHIN = 60.0


def measure(service: Service) -> Report:
    commit = floor(service.database)
    service.start_worker()
    times = {turns: [_take_over(service, turns) for _ in range(ROUNDS)] for turns in (0, TURNS)}
    report = Report(
        "From kill -9 to the next model request, in ms", ("finished turns in the leg", "p50", "max")
    )
    for turns, found in times.items():
        report.add(str(turns), f"{statistics.median(found):.0f}", f"{max(found):.0f}")
    more = statistics.median(times[TURNS]) - statistics.median(times[0])
    report.notes += [
        f"{more / (2 * TURNS):.2f} ms for each finished step, {more / 2 / TURNS:.1f} s for 1,000: "
        "the journal's replay and the longer transcript. No leg has more than 100.",
        f"{ROUNDS} kills each. Floor (INSERT and commit): {commit:.3f} ms.",
    ]
    return report


def _take_over(service: Service, turns: int) -> float:
    service.tell_model("forget")
    run = service.submit(use("read_only", turns, then="stall"))
    until(lambda: service.tally() == turns + 1, f"{run} stalls", WITHIN)
    doomed = service.owner(run)
    began = time.monotonic()
    service.start.kill(doomed)
    until(lambda: service.tally() == turns + 2, "the model is asked again", WITHIN)
    found = service.arrivals()[-1]["at"] / 1e6 - began * 1000
    service.api.post(f"/v1/runs/{run}/cancel", json={}).raise_for_status()
    service.start_worker()
    return float(found)
