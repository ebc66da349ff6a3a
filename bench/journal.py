"""What DBOS alone takes for a step that does nothing, in ms."""

import asyncio
import statistics
import subprocess
import sys
import time

import psycopg
from dbos import DBOS, DBOSConfig
from sqlalchemy.engine import make_url

from app.store.db import sqlalchemy_url
from bench.service import ROOT

STEPS = 100


@DBOS.step()
async def nothing(n: int) -> int:
    return n


@DBOS.workflow()
async def steps() -> float:
    times = []
    for n in range(STEPS):
        began = time.perf_counter()
        await nothing(n)
        times.append((time.perf_counter() - began) * 1000)
    return statistics.median(times)


def prepare(beside: str) -> str:
    """A database of its own on the same server, so that no queue of ours is served."""
    with psycopg.connect(beside, autocommit=True) as connection:
        connection.execute("create database bare")
    return make_url(beside).set(database="bare").render_as_string(hide_password=False)


def measure(database: str) -> float:
    """The median of a step, in a process of its own, as the worker is one."""
    program = [sys.executable, "-m", "bench.journal", database]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


async def _run() -> float:
    await steps()
    return await steps()


def main(database: str) -> None:
    config: DBOSConfig = {
        "name": "bare",
        "system_database_url": sqlalchemy_url(database),
        "executor_id": "bare",
        "log_level": "ERROR",
    }
    DBOS(config=config)
    DBOS.launch()
    sys.stdout.write(f"{asyncio.run(_run())}\n")
    DBOS.destroy()


if __name__ == "__main__":
    main(*sys.argv[1:])
