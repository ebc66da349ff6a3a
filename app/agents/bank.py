"""What the pretend payment provider keeps: orders, a ledger, and requests it holds back."""

import asyncio
import re
import sqlite3
import weakref
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

# Returns once a client has gone.
Gone = Callable[[], Coroutine[Any, Any, None]]
_SCHEMA = """
CREATE TABLE IF NOT EXISTS ledger (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    order_id TEXT NOT NULL,
    cents INTEGER NOT NULL,
    key TEXT UNIQUE,
    calls INTEGER NOT NULL DEFAULT 1
)
"""
_ORDERS = {
    "1001": {"customer": "Ada Brooks", "total_cents": 12_900},
    "1002": {"customer": "Noor Haddad", "total_cents": 4_550},
    "1003": {"customer": "Tomas Lind", "total_cents": 89_000},
    "1004": {"customer": "Mei Tanaka", "total_cents": 2_000},
    "1005": {"customer": "Lea Fontaine", "total_cents": 240_000},
}
# Always a fresh one: 2001 is as 1001, and so with each thousand.
_ORDER_ID = re.compile(r"[1-9][0-9]*(00[1-5])")


class Refusal(Exception):
    """The provider says no, with an HTTP status."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class Ledger:
    """Money that moved, one row each; `calls` counts how often the row was asked for."""

    def __init__(self, path: str) -> None:
        self._database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        weakref.finalize(self, self._database.close)
        self._database.row_factory = sqlite3.Row
        self._database.execute(_SCHEMA)

    def order(self, order_id: str) -> dict[str, Any]:
        found = _ORDER_ID.fullmatch(order_id)
        if found is None:
            raise Refusal(404, f"There is no order {order_id}.")
        paid = self._one("SELECT coalesce(sum(cents), 0) FROM ledger WHERE order_id = ?", order_id)
        return {"id": order_id, **_ORDERS[f"1{found[1]}"], "returned_cents": paid[0]}

    def book(self, kind: str, order_id: str, cents: int, key: str | None) -> dict[str, Any]:
        """A known key gives its own row again, whatever has happened to the order since."""
        known = self._find(key)
        if known is not None:
            if (known["kind"], known["order_id"], known["cents"]) != (kind, order_id, cents):
                raise Refusal(422, "This Idempotency-Key was used for another payment.")
            return self._count(known["id"])
        order = self.order(order_id)
        left = order["total_cents"] - order["returned_cents"]
        if cents > left:
            raise Refusal(422, f"Order {order_id} has {left} cents left to return.")
        insert = "INSERT INTO ledger (kind, order_id, cents, key) VALUES (?, ?, ?, ?) RETURNING *"
        return dict(self._one(insert, kind, order_id, cents, key))

    def rows(self) -> list[dict[str, Any]]:
        return [dict(row) for row in self._database.execute("SELECT * FROM ledger ORDER BY id")]

    def _find(self, key: str | None) -> sqlite3.Row | None:
        found = self._database.execute("SELECT * FROM ledger WHERE key = ?", (key,)).fetchone()
        return found if isinstance(found, sqlite3.Row) else None

    def _count(self, row: int) -> dict[str, Any]:
        update = "UPDATE ledger SET calls = calls + 1 WHERE id = ? RETURNING *"
        return dict(self._one(update, row))

    def _one(self, statement: str, *values: str | int | None) -> sqlite3.Row:
        (row,) = self._database.execute(statement, values).fetchall()
        assert isinstance(row, sqlite3.Row)
        return row


class Holds:
    """Requests stopped on either side of their effect, so that a client can be killed there."""

    def __init__(self) -> None:
        self._armed: list[tuple[str, str]] = []
        self._held: list[tuple[dict[str, Any], asyncio.Event]] = []
        self._changed = asyncio.Condition()

    def arm(self, where: str, path: str) -> None:
        """Hold one request, the next one that comes by."""
        self._armed.append((where, path))

    async def stop(self, place: dict[str, Any], gone: Gone) -> None:
        """If armed: until it is released. A client that has gone is refused, and no longer held."""
        armed = (place["where"], place["path"])
        if armed not in self._armed:
            return
        self._armed.remove(armed)
        held = place, asyncio.Event()
        async with self._changed:
            self._held.append(held)
            self._changed.notify_all()
        try:
            await _unless_gone(held[1].wait(), gone)
        finally:
            with suppress(ValueError):
                self._held.remove(held)

    async def wait(self, seconds: float, gone: Gone) -> list[dict[str, Any]]:
        """What is held, as soon as anything is; when the time is over, hold no more."""
        try:
            async with asyncio.timeout(seconds):
                await _unless_gone(self._until_held(), gone)
        except TimeoutError:
            self._armed.clear()
        return self.look()

    def look(self) -> list[dict[str, Any]]:
        return [place for place, _ in self._held]

    @property
    def is_set(self) -> bool:
        return bool(self._armed or self._held)

    def release(self) -> int:
        """Let all go on and hold no more."""
        held, self._held = self._held, []
        self._armed.clear()
        for _, released in held:
            released.set()
        return len(held)

    async def _until_held(self) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: bool(self._held))


async def _unless_gone(awaited: Coroutine[Any, Any, Any], gone: Gone) -> None:
    tasks = [asyncio.create_task(awaited), asyncio.create_task(gone())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
    if not tasks[0].done():
        raise Refusal(499, "Nobody is there for the answer.")
