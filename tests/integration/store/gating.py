"""Transitions that come one behind the other to a row that is held."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from tests.integration.store.stage import Stage
from tests.support.polling import eventually

Act = Callable[[], Awaitable[Any]]


async def one_behind_the_other(gate: Stage, run: str, first: Act, second: Act) -> list[Any]:
    """Both have begun, and taken their snapshot, before either gets the run's row."""
    acts: list[asyncio.Future[Any]] = []
    async with gate.connection.transaction():
        await gate.do("select from perdure.runs where id = %(run)s for no key update", run=run)
        for act in (first, second):
            acts.append(asyncio.ensure_future(act()))
            await eventually(lambda: _are_waiting(gate, len(acts)), "a lock is waited for")
    return await asyncio.gather(*acts, return_exceptions=True)


async def _are_waiting(gate: Stage, count: int) -> bool:
    await gate.do("select pg_stat_clear_snapshot()")  # else a transaction sees its first look again
    found = await gate.one(
        """select count(*) as waiting from pg_stat_activity
           where datname = current_database() and wait_event_type = 'Lock'"""
    )
    return bool(found["waiting"] == count)
