"""Telling other processes that runs have moved on: one NOTIFY for all of the last few milliseconds.

Never inside a transition: NOTIFY takes one lock for the commits of the whole database.
"""

import asyncio
import logging

from app.store.db import Database, row
from app.store.db_errors import is_unavailable

log = logging.getLogger(__name__)

CHANNEL = "perdure_runs"
PAUSE = 0.015
# A payload may have 8000 bytes.
BATCH = 200


class Notifier:
    """Best effort: whoever waits also polls."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._runs: set[str] = set()
        self._task: asyncio.Task[None] | None = None

    def tell(self, run: str) -> None:
        self._runs.add(run)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._send())

    async def _send(self) -> None:
        while self._runs:
            await asyncio.sleep(PAUSE)
            batch = [self._runs.pop() for _ in range(min(BATCH, len(self._runs)))]
            try:
                async with self._database.connection() as connection:
                    await row(
                        connection,
                        "select pg_notify(%(channel)s, %(runs)s)",
                        channel=CHANNEL,
                        runs=",".join(batch),
                    )
            except Exception as error:
                if not is_unavailable(error):
                    raise
                log.debug("nobody was told: %s", type(error).__name__)
