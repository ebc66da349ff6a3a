"""One execution of a leg: which run, under which fence, with what at hand."""

import asyncio
import contextlib
import itertools
import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TypeVar

from app import telemetry
from app.domain.ids import WorkerId, leg_id
from app.durable.bodies import Bodies
from app.durable.deltas import Deltas
from app.durable.engine import TOLD_EACH
from app.durable.enqueue import Legs
from app.errors import Fenced
from app.llm.client import ModelClient
from app.store.db import Connection, Database, Row, Transaction
from app.store.db_errors import is_unavailable
from app.store.notify import Notifier
from app.tools.registry import Registry

log = logging.getLogger(__name__)

T = TypeVar("T")

# Of the connections of a worker, those that may wait for a session that is held.
IN_LINE = 3

# It goes on while the machine sleeps, as the others' do.
CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def now() -> float:
    return time.clock_gettime(CLOCK)


class Proof:
    """That this worker lives: good until then, by the clock.

    One that wakes up from a freeze finds it expired, before it does anything else."""

    until: float = -math.inf

    def holds(self) -> bool:
        return now() < self.until


@dataclass
class Bench:
    """What every leg of this worker works with. Made by the worker's root."""

    worker: WorkerId
    database: Database
    # Apart, so that long transactions of tools never keep a run from ending.
    tools_database: Database
    legs: Legs
    registry: Registry
    model: ModelClient
    model_attempts: int
    # Calls under way at once over all workers; None for as many as there are.
    model_concurrency: int | None
    notifier: Notifier
    bodies: Bodies = field(default_factory=Bodies)
    active: Counter[str] = field(default_factory=Counter)
    executions: Iterator[int] = field(default_factory=itertools.count)
    draining: threading.Event = field(default_factory=threading.Event)
    proof: Proof = field(default_factory=Proof)
    line: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(IN_LINE))
    deltas: Deltas = field(init=False)
    # Where legs run; known from the first one on.
    loop: asyncio.AbstractEventLoop | None = None

    def __post_init__(self) -> None:
        self.deltas = Deltas(self.database)

    @property
    def is_broken(self) -> bool:
        """A tool has ended the event loop of all legs; none of them can go on here."""
        ended = self.loop is not None and not self.loop.is_running()
        return ended and not self.draining.is_set()

    async def store(self, act: Callable[[Connection], Awaitable[T]]) -> T:
        """One statement, sent until it is answered; a transition knows its own earlier commit."""

        async def once() -> T:
            async with self.database.connection() as connection:
                return await act(connection)

        return await insist(once)

    async def transact(self, act: Callable[[Transaction], Awaitable[T]]) -> T:
        """Several statements in one commit, tried again as a whole."""

        async def once() -> T:
            async with self.database.transaction() as transaction:
                return await act(transaction)

        return await insist(once)

    async def may_begin(self) -> None:
        """Nothing new begins while this worker cannot prove that it lives."""
        while not self.proof.holds():  # noqa: ASYNC110 - another thread renews it
            await asyncio.sleep(0.02)


@dataclass(frozen=True)
class Execution:
    run: str
    leg: int
    fence: int
    facts: Row

    def guard(self, verdict: str) -> str:
        """After each write: clients are told of it, and a refused one ends this execution.

        Neither step nor workflow is journaled for a Fenced one.
        """
        bench().notifier.tell(self.run)
        if verdict == "fenced":
            raise Fenced(f"{self.run}: another execution has taken leg {self.leg} over")
        return verdict


_bench: list[Bench] = []
_execution: ContextVar[Execution] = ContextVar("execution")


def bench() -> Bench:
    return _bench[0]


@contextlib.contextmanager
def installed(made: Bench) -> Iterator[None]:
    """DBOS calls workflows and steps by name, so what they work with is found here."""
    _bench.append(made)
    try:
        yield
    finally:
        _bench.remove(made)


def is_at_work() -> bool:
    """Whether this process has a leg in hand."""
    return any(made.active for made in _bench)


@contextlib.contextmanager
def in_hand(run: str, leg: int) -> Iterator[None]:
    """This process is at this leg; the journal alone cannot tell."""
    active, name = bench().active, leg_id(run, leg)
    active[name] += 1
    try:
        with telemetry.place(run=run, leg=leg):
            yield
    finally:
        active[name] -= 1
        active += Counter()  # drops what has come to nothing


def execution() -> Execution:
    return _execution.get()


def enter(entered: Execution) -> None:
    _execution.set(entered)


async def insist(once: Callable[[], Awaitable[T]]) -> T:
    """Until the database is back; what was going on has been lost to nobody meanwhile."""
    pause, told = 0.02, -TOLD_EACH
    while True:
        try:
            return await once()
        except Exception as error:
            if not is_unavailable(error):
                raise
            if time.monotonic() - told >= TOLD_EACH:
                log.warning("it is tried again: %s", type(error).__name__)
                told = time.monotonic()
        await asyncio.sleep(pause)
        pause = min(pause * 2, 0.5)
