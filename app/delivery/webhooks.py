"""Hands events over to the callbacks of their runs, on an event loop and a thread of its own.

At least once: a claim that its worker did not live to settle runs out, and another claims it.
"""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from app.delivery.post import TIMEOUT_SECONDS, Answer, Poster
from app.delivery.signature import sign
from app.domain.canonical import printed
from app.domain.webhooks import ATTEMPTS_IN_ORDER, LIFETIME_SECONDS, pause_after
from app.store import webhooks
from app.store.db import Connection, Database, Row
from app.store.db_errors import is_unavailable

log = logging.getLogger(__name__)

POLL_SECONDS = 0.3
AT_ONCE = 20
CONNECTIONS = 3
PATIENCE_SECONDS = 2.0
CLAIM_SECONDS = TIMEOUT_SECONDS + 5.0
# What is under way when the process ends has so long; then another worker repeats it.
LEAVING_SECONDS = 1.0

# What is said of a delivery.
Compose = Callable[[Connection, Row], Awaitable[dict[str, Any]]]


class Courier:
    def __init__(self, url: str, keys: Sequence[bytes], poster: Poster, compose: Compose) -> None:
        self._url = url
        self._keys = keys
        self._poster = poster
        self._compose = compose
        self._under_way: set[asyncio.Task[None]] = set()
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._main, name="perdure-webhooks", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self._leaving.set()
        self._thread.join(POLL_SECONDS + LEAVING_SECONDS)

    def _main(self) -> None:
        try:
            asyncio.run(self._run())
        except Exception:
            log.exception("webhooks are no longer sent by this worker")

    async def _run(self) -> None:
        # Names are resolved in threads: a slow one must not hold up those of other receivers.
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(AT_ONCE))
        async with Database(self._url, size=CONNECTIONS, patience=PATIENCE_SECONDS) as database:
            while not self._leaving.is_set():
                await self._begin(database)
                await self._pause()
            if self._under_way:
                await asyncio.wait(self._under_way, timeout=LEAVING_SECONDS)
            for task in self._under_way:
                task.cancel()

    async def _begin(self, database: Database) -> None:
        free = AT_ONCE - len(self._under_way)
        if not free:
            return
        try:
            async with database.connection() as connection:
                claimed = await webhooks.claim(
                    connection, free, seconds=CLAIM_SECONDS, attempts_in_order=ATTEMPTS_IN_ORDER
                )
        except Exception as error:  # noqa: BLE001 - the next round asks again
            log.warning("no webhooks can be claimed: %s: %s", type(error).__name__, error)
            return
        for each in claimed:
            task = asyncio.create_task(self._deliver(database, each))
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)

    async def _pause(self) -> None:
        """Cut short by an attempt that ends: what comes next in its run may now go."""
        if self._under_way:
            await asyncio.wait(
                self._under_way, timeout=POLL_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
        else:
            await asyncio.sleep(POLL_SECONDS)

    async def _deliver(self, database: Database, delivery: Row) -> None:
        try:
            answer = await self._answer(database, delivery)
            async with database.connection() as connection:
                await self._settle(connection, delivery, answer)
        except Exception as error:
            # Its claim runs out, and it is tried again.
            if is_unavailable(error):
                log.warning("webhook %s: the database is away", delivery["id"])
            else:
                log.exception("webhook %s: it cannot be kept what became of it", delivery["id"])

    async def _answer(self, database: Database, delivery: Row) -> Answer:
        try:
            return await self._attempt(database, delivery)
        except Exception as error:
            if is_unavailable(error):
                raise
            log.exception("webhook %s cannot be sent", delivery["id"])
            return Answer(None, f"it could not be sent: {type(error).__name__}")

    async def _attempt(self, database: Database, delivery: Row) -> Answer:
        body = delivery["body"]
        if body is None:
            async with database.connection() as connection:
                said = await self._compose(connection, delivery)
                body = await webhooks.keep_body(connection, delivery["id"], printed(said))
        headers = sign(self._keys, delivery["id"], delivery["now"], body)
        return await self._poster.post(delivery["callback"], headers, body)

    async def _settle(self, connection: Connection, delivery: Row, answer: Answer) -> None:
        id, attempt = delivery["id"], delivery["attempts"]
        if answer.error is None:
            assert answer.status is not None
            await webhooks.deliver(connection, id, answer.status)
            return
        state = await webhooks.fail(
            connection,
            id,
            delivery["claimed_until"],
            status=answer.status,
            error=answer.error,
            pause=pause_after(attempt, answer.status, answer.retry_after),
            lifetime=LIFETIME_SECONDS,
        )
        log.warning("webhook %s, attempt %d: %s (%s)", id, attempt, answer.error, state)
