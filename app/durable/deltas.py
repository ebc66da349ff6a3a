"""The text of model calls under way, for those who watch: told in passing, never waited for."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from app.domain.canonical import encode
from app.domain.events import LONGEST_DRAFT
from app.store import watching
from app.store.db import Database
from app.store.db_errors import is_unavailable

log = logging.getLogger(__name__)

PAUSE = 0.1
LOOK = 0.5
TROUBLE = 5.0
LARGEST_BYTES = 7900


class Saying:
    """One model call. Offsets count characters of the answer's text."""

    def __init__(self, run: str, turn: int, attempt: int) -> None:
        self.key = watching.key_of(run)
        self._place = {"run": run, "turn": turn, "attempt": attempt}
        self._pieces: list[str] = []
        self._text = ""
        self._start = 0
        self._told = 0

    def hear(self, text: str) -> None:
        self._pieces.append(text)

    def gather(self) -> None:
        text = self._text + "".join(self._pieces)
        self._pieces.clear()
        self._text = text[-LONGEST_DRAFT:]
        self._start += len(text) - len(self._text)

    def begin_anew(self) -> None:
        """Nobody watches; who comes is told all from the beginning."""
        self._told = 0

    def next(self) -> str | None:
        """The next payload, if there is anything new."""
        offset = max(self._told, self._start)
        text = self._text[offset - self._start :][:LARGEST_BYTES]
        if not text:
            return None
        payload = self._payload(offset, text)
        while len(payload) > LARGEST_BYTES:
            text = text[: len(text) // 2]
            payload = self._payload(offset, text)
        self._told = offset + len(text)
        return payload

    def _payload(self, offset: int, text: str) -> str:
        return encode({**self._place, "offset": offset, "text": text})


class Deltas:
    """All calls of this worker. Costs nothing where no call is under way, and no notice where
    nobody watches."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._sayings: set[Saying] = set()
        self._watched: frozenset[int] = frozenset()
        self._looked_at = float("-inf")
        self._task: asyncio.Task[None] | None = None

    @contextmanager
    def of(self, run: str, turn: int, attempt: int) -> Iterator[Callable[[str], None]]:
        """Takes the pieces of text as they come."""
        saying = Saying(run, turn, attempt)
        self._sayings.add(saying)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._tell())
        try:
            yield saying.hear
        finally:
            self._sayings.discard(saying)

    async def _tell(self) -> None:
        while self._sayings:
            pause = PAUSE
            try:
                await self._look()
                await self._send()
            except Exception as error:
                if not is_unavailable(error):
                    log.exception("deltas are not told")
                self._watched = frozenset()
                pause = TROUBLE
            await asyncio.sleep(pause)

    async def _look(self) -> None:
        if time.monotonic() - self._looked_at < LOOK:
            return
        self._looked_at = time.monotonic()
        async with self._database.connection() as connection:
            self._watched = await watching.watched(connection)

    async def _send(self) -> None:
        payloads = []
        for saying in self._sayings:
            saying.gather()
            if saying.key not in self._watched:
                saying.begin_anew()
            elif (payload := saying.next()) is not None:
                payloads.append(payload)
        if payloads:
            async with self._database.connection() as connection:
                await watching.tell(connection, payloads)
