"""A payment provider: honours Idempotency-Key, books every keyless payment, can be asked."""

import threading
from dataclasses import dataclass, field


@dataclass(frozen=True)
class PayCall:
    """One arrival of POST /pay, whatever became of it."""

    ref: str
    amount: int
    key: str | None
    headers: dict[str, str]


@dataclass(frozen=True)
class LedgerRow:
    """Money that moved."""

    ref: str
    amount: int
    key: str | None


class KeyReused(Exception):
    """One idempotency key came with two different payments."""


@dataclass
class Payments:
    """What a payment provider remembers; safe to read from the test's thread."""

    calls: list[PayCall] = field(default_factory=list)
    ledger: list[LedgerRow] = field(default_factory=list)
    lookups: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def receive(self, ref: str, amount: int, headers: dict[str, str]) -> PayCall:
        call = PayCall(ref, amount, headers.get("idempotency-key"), headers)
        with self._lock:
            self.calls.append(call)
        return call

    def book(self, call: PayCall) -> LedgerRow:
        """The effect: a known key gets its row again, a payment without a key is made each time."""
        row = LedgerRow(call.ref, call.amount, call.key)
        with self._lock:
            first = next((old for old in self.ledger if old.key == row.key), None)
            if row.key is None or first is None:
                self.ledger.append(row)
            elif first != row:
                raise KeyReused(row.key)
            return row

    def look_up(self, ref: str, key: str | None = None) -> LedgerRow | None:
        """The payment with this reference, or the one of them that came with `key`."""
        with self._lock:
            self.lookups.append(ref)
            rows = (row for row in self.ledger if row.ref == ref and key in (None, row.key))
            return next(rows, None)

    def calls_for(self, ref: str) -> list[PayCall]:
        with self._lock:
            return [call for call in self.calls if call.ref == ref]

    def rows_for(self, ref: str) -> list[LedgerRow]:
        with self._lock:
            return [row for row in self.ledger if row.ref == ref]
