"""Steps per second of one, two and four workers."""

import os

from bench.machine import floor
from bench.orders import use
from bench.report import Report
from bench.service import Service, until

COUNTS = (1, 2, 4)
RUNS = 60
TURNS = 10


def measure(service: Service) -> Report:
    commit = floor(service.database)
    report = Report(
        f"{RUNS} runs at once, {TURNS} turns of one at_most_once call each",
        ("workers", "steps/s", "÷ one worker"),
    )
    rates: list[float] = []
    for count in COUNTS:
        while len(service.start.workers()) < count:
            service.start_worker()
        rates.append(_rate(service))
        report.add(str(count), f"{rates[-1]:.0f}", f"{rates[-1] / rates[0]:.2f}")
    report.notes.append(
        f"Workers, database, API and model share the {os.cpu_count()} cores of this machine, so "
        f"this says little of machines with more. Floor (INSERT and commit): {commit:.3f} ms."
    )
    return report


def _rate(service: Service) -> float:
    service.tell_model("forget")
    service.tell_model("shut")
    runs = [service.submit(use("at_most_once", TURNS)) for _ in range(RUNS)]
    until(lambda: service.tally() == RUNS, "all runs wait for the model", 60)
    began = service.tell_model("release")
    service.wait(*runs)
    seconds = (int(service.arrivals()[-1]["at"]) - began) / 1e9
    return 2 * RUNS * TURNS / seconds
