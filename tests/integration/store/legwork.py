"""A worker's hands without its process: what a leg calls, over a real database."""

import math
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any, cast

from app.domain.canonical import digest
from app.domain.ids import WorkerId
from app.durable import children, ledger
from app.durable.execution import Bench, Execution, enter, installed
from app.llm.client import ModelClient
from app.services.context import Services
from app.store import runs
from app.store.calls import Intent
from app.tools.agent import Agent
from app.tools.registry import Registry


@asynccontextmanager
async def benched(services: Services, agents: Iterable[Agent] = ()) -> AsyncIterator[Bench]:
    """The bench of `w1`, which the stage knows too."""
    bench = Bench(
        worker=WorkerId("w1"),
        database=services.database,
        tools_database=services.database,
        legs=services.legs,
        registry=Registry.of(agents),
        model=cast(ModelClient, None),
        model_attempts=1,
        model_concurrency=None,
        notifier=services.notifier,
    )
    bench.proof.until = math.inf
    with installed(bench):
        yield bench


async def execute(bench: Bench, run: str, fence: int) -> None:
    """From here on this task is the run's execution."""
    facts = await bench.store(lambda c: runs.facts(c, run))
    enter(Execution(run, 1, fence, facts))


async def delegate(bench: Bench, run: str, fence: int, **arguments: Any) -> None:
    """As the leg does it for the first call of the first turn."""
    await execute(bench, run, fence)
    asked = {"agent": "desk", "input": "do a part of it"} | arguments
    intent = Intent(asked, digest(asked), "transactional", "never")
    call = await ledger.load(run, 1, 0)
    await children.delegate(call.with_arguments(asked), intent, call.attempt + 1)
