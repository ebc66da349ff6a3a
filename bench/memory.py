"""A worker's memory with many runs in flight."""

import psutil

from bench.orders import use
from bench.report import Goal, Report
from bench.service import Service, until

RUNS = 100
TURNS = 10
GOAL_MB = 200.0


def measure(service: Service) -> Report:
    worker = psutil.Process(service.worker)
    service.carry_out("read_only 1 end")
    at_rest = _megabytes(worker)
    service.tell_model("forget")
    for _ in range(RUNS):
        service.submit(use("at_most_once", TURNS, then="stall"))
    reached = RUNS * (TURNS + 1)
    until(lambda: service.tally() == reached, "all runs wait for the model", 120)
    in_flight = _megabytes(worker)
    report = Report("A worker's resident memory, in MB", ("runs in flight", "MB", "threads"))
    report.add("none", f"{at_rest:.0f}", "")
    report.add(f"{RUNS}, in model call {TURNS + 1}", f"{in_flight:.0f}", f"{worker.num_threads()}")
    report.goals.append(Goal(f"memory with {RUNS} runs in flight", in_flight, GOAL_MB, "MB"))
    return report


def _megabytes(process: psutil.Process) -> float:
    return float(process.memory_info().rss / 1e6)
