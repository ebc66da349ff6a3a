"""Leases that are kept within a test."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from app.domain.ids import WorkerId
from app.durable.execution import Proof
from app.durable.lease import GivenUp, Lease
from app.durable.liveness import own_identity
from tests.support.polling import eventually

# Beats each 0.2 s; nothing may begin after 0.8 s without one.
SECONDS = 1.0
WORKER = WorkerId("box-1-a")


def lease_of(url: str, seconds: float = SECONDS) -> Lease:
    return Lease(url, WORKER, own_identity(), "1", ["desk"], seconds, Proof())


@asynccontextmanager
async def keeping(lease: Lease) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(lease.keep())
    try:
        await eventually(lambda: is_held(lease), "the lease is held")
        yield task
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, GivenUp):
            await task
        await lease._disconnect()


async def is_held(lease: Lease) -> bool:
    return lease.proof.holds()
