"""Transitions that come one behind the other to a row that is held."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, LiteralString

from tests.integration.store.stage import Stage
from tests.support.polling import eventually

Act = Callable[[], Awaitable[Any]]

RUN: LiteralString = "select from perdure.runs where id = %(row)s for no key update"
SESSION: LiteralString = "select from perdure.sessions where id = %(row)s for no key update"


async def one_behind_the_other(
    gate: Stage, row: str, first: Act, second: Act, lock: LiteralString = RUN
) -> list[Any]:
    """Both have begun, and taken their snapshot, before either gets the row."""
    acts: list[asyncio.Future[Any]] = []
    async with gate.connection.transaction():
        await gate.do(lock, row=row)
        for act in (first, second):
            acts.append(asyncio.ensure_future(act()))
            await eventually(lambda: are_waiting(gate, len(acts)), "a lock is waited for")
    return await asyncio.gather(*acts, return_exceptions=True)


async def are_waiting(gate: Stage, count: int) -> bool:
    await gate.do("select pg_stat_clear_snapshot()")  # else a transaction sees its first look again
    found = await gate.one(
        """select count(*) as waiting from pg_stat_activity
           where datname = current_database() and wait_event_type = 'Lock'"""
    )
    return bool(found["waiting"] == count)
