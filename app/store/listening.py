"""The one connection by which a process hears of what others do."""

import asyncio
import logging
from collections.abc import Callable, Collection
from itertools import islice

import psycopg
from psycopg import sql

from app.store.db import REACH, Connection
from app.store.notify import CHANNEL
from app.store.watching import DELTAS, key_of, watch

RETRY_SECONDS = 0.5
# The lock table has room for some thousand locks of all kinds.
MOST_WATCHED = 200

log = logging.getLogger(__name__)

# What comes over the two channels.
Hear = Callable[[str], None]


class Listener:
    """What is told while the connection is down is not heard."""

    def __init__(self, url: str, hear_runs: Hear, hear_delta: Hear) -> None:
        self._url = url
        self._hear = {CHANNEL: hear_runs, DELTAS: hear_delta}
        self._watched: frozenset[int] = frozenset()
        self._changed = asyncio.Event()

    def watch(self, runs: Collection[str]) -> None:
        """From now on these, the first of them: their deltas are worth telling."""
        self._watched = frozenset(map(key_of, islice(runs, MOST_WATCHED)))
        self._changed.set()

    async def run(self) -> None:
        """Until cancelled, over any number of lost connections."""
        while True:
            try:
                # Keepalives: a listener only reads, and would never find out that the other
                # side is gone.
                async with await psycopg.AsyncConnection.connect(
                    self._url, autocommit=True, **REACH
                ) as connection:
                    await self._serve(connection)
            except (psycopg.Error, OSError) as error:
                log.debug("nothing is heard: %s", type(error).__name__)
            except Exception:
                log.exception("what was heard could not be taken in")
            await asyncio.sleep(RETRY_SECONDS)

    async def _serve(self, connection: Connection) -> None:
        channels = sql.SQL("; listen ").join(map(sql.Identifier, self._hear))
        await connection.execute(sql.SQL("listen {}").format(channels))
        held: frozenset[int] = frozenset()
        while True:
            self._changed.clear()
            wanted = self._watched
            await watch(connection, wanted - held, held - wanted)
            held = wanted
            await self._listen_until_changed(connection)

    async def _listen_until_changed(self, connection: Connection) -> None:
        """A connection that listens can do nothing else meanwhile."""
        listening = asyncio.create_task(self._listen(connection))
        changing = asyncio.create_task(self._changed.wait())
        try:
            await asyncio.wait({listening, changing}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            changing.cancel()
            listening.cancel()
            await asyncio.wait({listening})
        if not listening.cancelled():
            listening.result()

    async def _listen(self, connection: Connection) -> None:
        async for notice in connection.notifies():
            self._hear[notice.channel](notice.payload)
