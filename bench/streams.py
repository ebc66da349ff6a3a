"""Many event streams on one API process: what they hold, and how soon a frame comes."""

import asyncio
import json
import statistics
import threading
import time
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

import httpx
import psutil
import psycopg

from app.store.notify import BATCH, CHANNEL, PAUSE
from bench.orders import use
from bench.report import Goal, Report, p95
from bench.service import Service, Stuck

T = TypeVar("T")

STREAMS = 500
SECONDS = 10.0
# Events a second: of the one busy run, and of each where all are.
ONE_BUSY, ALL_BUSY = 20, 1
OPENED_IN = 60.0
GOAL_KB = 100.0
GOAL_CORES = 0.05
GOAL_ONE_MS = 100.0
GOAL_ALL_MS = 250.0
TELL = """
    select perdure.tell(id, array['message.queued'], array['{}'::json]) from (
        select id from perdure.runs where id = any(%s) order by id for no key update) told
"""


@dataclass
class Reader:
    """One client. `late`: seconds from each event's own time to its frame, here."""

    run: str
    seen: int = 0
    late: list[float] = field(default_factory=list)

    async def follow(self, url: httpx.URL) -> None:
        reader, writer = await asyncio.open_connection(url.host, url.port)
        writer.write(
            f"GET /v1/runs/{self.run}/events HTTP/1.1\r\nHost: localhost\r\n"
            "Accept: text/event-stream\r\n\r\n".encode()
        )
        try:
            async for line in reader:
                if line.startswith(b"data: "):
                    at = datetime.fromisoformat(json.loads(line[6:])["at"]).timestamp()
                    self.late.append(time.time() - at)  # noqa: TID251 - against the database's
                    self.seen += 1
        finally:
            writer.close()


def measure(service: Service) -> Report:
    return asyncio.run(_measure(service))


async def _measure(service: Service) -> Report:
    runs = await asyncio.to_thread(_runs, service)
    api = psutil.Process(service.server)
    before = api.memory_info().rss
    readers = [Reader(run) for run in runs]
    following = [asyncio.create_task(each.follow(service.api.base_url)) for each in readers]
    began = time.monotonic()
    await _all_seen(readers)
    opened = time.monotonic() - began
    held = (api.memory_info().rss - before) / 1e3 / STREAMS
    rest, _ = await _cores(api, asyncio.sleep(SECONDS))
    report = Report(
        f"{STREAMS} event streams on one API process",
        ("events", "p50 ms", "p95 ms", "max ms", "API's cores"),
    )
    report.add("none", "", "", "", f"{rest:.3f}")
    one = await _busy(service, api, readers, runs[-1:], ONE_BUSY, report)
    every = await _busy(service, api, readers, runs, ALL_BUSY, report)
    await _end(following)
    report.notes += [
        f"All were open, and had replayed their logs, after {opened:.1f} s; each holds "
        f"{held:.0f} kB of the API's memory.",
        "From the time an event was written, a little before its commit, to its frame at the "
        "client, which runs beside the service on the same machine.",
    ]
    report.goals += [
        Goal("memory of a stream", held, GOAL_KB, "kB"),
        Goal(f"API at rest, {STREAMS} streams", rest, GOAL_CORES, "cores"),
        Goal("an event to its frame, one run busy, p95", one, GOAL_ONE_MS, "ms"),
        Goal("an event to its frame, all runs busy, p95", every, GOAL_ALL_MS, "ms"),
    ]
    return report


def _runs(service: Service) -> list[str]:
    """One that waits for a person, and the others behind it."""
    return [service.submit(use("pay", 1), "clerk", target="one") for _ in range(STREAMS)]


async def _all_seen(readers: Sequence[Reader]) -> None:
    deadline = time.monotonic() + OPENED_IN
    while not all(each.seen for each in readers):
        if time.monotonic() > deadline:
            raise Stuck(f"{sum(not each.seen for each in readers)} streams have shown nothing")
        await asyncio.sleep(0.05)


async def _cores(api: psutil.Process, meanwhile: Awaitable[T]) -> tuple[float, T]:
    began, before = time.monotonic(), sum(api.cpu_times()[:2])
    result = await meanwhile
    used = sum(api.cpu_times()[:2]) - before
    return float(used) / (time.monotonic() - began), result


async def _busy(
    service: Service,
    api: psutil.Process,
    readers: Sequence[Reader],
    runs: Sequence[str],
    rate: int,
    report: Report,
) -> float:
    """The p95, in ms, over all frames of `rate` events a second in each of `runs`."""
    for each in readers:
        each.late.clear()
    writer = Writer(service.database, runs, rate)
    began = time.monotonic()
    used, told = await _cores(api, asyncio.to_thread(writer.write))
    took = time.monotonic() - began
    await asyncio.sleep(1.0)
    late = [1000 * each for reader in readers for each in reader.late]
    if len(late) != told:
        raise Stuck(f"of {told} events {len(late)} were shown")
    report.add(
        f"{told / took:.0f} a second, of {len(runs)} runs",
        f"{statistics.median(late):.1f}",
        f"{p95(late):.1f}",
        f"{max(late):.1f}",
        f"{used:.3f}",
    )
    return p95(late)


class Writer:
    """Tells events as a worker does: committed each by each, and one notice for the last few."""

    def __init__(self, database: str, runs: Sequence[str], rate: int) -> None:
        self._database = database
        self._turn = [run for _ in range(int(rate * SECONDS)) for run in runs]
        self._pace = SECONDS / len(self._turn)

    def write(self) -> int:
        began, told = time.monotonic(), 0
        with psycopg.connect(self._database, autocommit=True) as connection:
            while told < len(self._turn):
                due = int((time.monotonic() - began) / self._pace) + 1
                batch = self._turn[told : min(due, told + BATCH)]
                for run in batch:
                    connection.execute(TELL, [[run]])
                if batch:
                    connection.execute("select pg_notify(%s, %s)", [CHANNEL, ",".join(batch)])
                told += len(batch)
                threading.Event().wait(PAUSE)
        return told


async def _end(following: Sequence[asyncio.Task[None]]) -> None:
    for task in following:
        task.cancel()
    for task in following:
        with suppress(asyncio.CancelledError, OSError):
            await task
