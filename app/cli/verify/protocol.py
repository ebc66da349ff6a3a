"""Postgres's wire protocol, as far as it tells what a client is about to commit."""

import re
import struct
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

# Asked before the start-up packet proper: TLS, GSSAPI, and the end of a statement elsewhere.
SSL_REQUEST, GSS_REQUEST, CANCEL_REQUEST = 80877103, 80877104, 80877102

_BEGIN = re.compile(r"\s*(begin|start\s+transaction)\b", re.IGNORECASE)
_COMMIT = re.compile(r"\s*(commit|end)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Message:
    kind: str
    body: bytes

    @property
    def raw(self) -> bytes:
        return self.kind.encode("latin-1") + struct.pack("!i", len(self.body) + 4) + self.body


class Splitter:
    """Cuts a stream of bytes into messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Message]:
        self._buffer += data
        while len(self._buffer) >= 5:
            (length,) = struct.unpack_from("!i", self._buffer, 1)
            if len(self._buffer) < length + 1:
                return
            kind, body = chr(self._buffer[0]), bytes(self._buffer[5 : length + 1])
            del self._buffer[: length + 1]
            yield Message(kind, body)


@dataclass
class Statement:
    """One statement that was sent; `rows` once the server has said how many it touched.

    `raw`, `formats` and `types`: its parameters to the byte.
    """

    sql: str
    values: tuple[str | None, ...] = ()
    tag: str = ""
    raw: tuple[bytes | None, ...] = ()
    formats: tuple[int, ...] = ()
    types: tuple[int, ...] = ()

    @property
    def rows(self) -> int | None:
        last = self.tag.rpartition(" ")[2]
        return int(last) if last.isdigit() else None


@dataclass
class Exchange:
    """What is sent up to a Sync, or as one simple query, and answered by one ReadyForQuery.

    `before`: what the same transaction has done already. `is_single`: a transaction by itself.
    """

    statements: list[Statement]
    before: list[Statement]
    commits: bool
    is_single: bool

    @property
    def all(self) -> list[Statement]:
        return self.before + self.statements


@dataclass
class Session:
    """One connection, followed from both sides."""

    status: str = "I"
    backend: int = 0
    _prepared: dict[str, tuple[str, tuple[int, ...]]] = field(default_factory=dict)
    _portals: dict[str, Statement] = field(default_factory=dict)
    _executed: list[Statement] = field(default_factory=list)
    _transaction: list[Statement] = field(default_factory=list)
    _pending: deque[Exchange] = field(default_factory=deque)

    def sent(self, message: Message) -> Exchange | None:
        """From the client. The exchange that this message completes, if it does."""
        match message.kind:
            case "P":
                name, sql = _texts(message.body, 2)
                self._prepared[name] = sql, _types(message.body)
            case "B":
                portal, statement = self._bind(message.body)
                self._portals[portal] = statement
            case "E":
                (portal,) = _texts(message.body, 1)
                if portal in self._portals:
                    self._executed.append(self._portals[portal])
            case "Q":
                self._executed += [Statement(sql) for sql in _split(_texts(message.body, 1)[0])]
                return self._complete()
            case "S":
                return self._complete()
        return None

    def answered(self, message: Message) -> Exchange | None:
        """From the server. The exchange that is over with this message."""
        if message.kind == "C" and self._pending:
            open_ones = (each for each in self._pending[0].statements if not each.tag)
            statement = next(open_ones, None)
            if statement is not None:
                statement.tag = _texts(message.body, 1)[0]
        if message.kind == "K":
            (self.backend,) = struct.unpack_from("!i", message.body)
        if message.kind != "Z":
            return None
        self.status = message.body.decode()
        exchange = self._pending.popleft() if self._pending else None
        if self.status == "I":
            self._transaction = []
        elif exchange is not None:
            self._transaction += exchange.statements
        return exchange

    def _complete(self) -> Exchange:
        statements, self._executed = self._executed, []
        ends = any(_COMMIT.match(each.sql) for each in statements)
        begins = any(_BEGIN.match(each.sql) for each in statements)
        is_single = self.status == "I" and (not begins or ends)
        exchange = Exchange(
            statements,
            list(self._transaction),
            commits=bool(statements) and (is_single or (self.status == "T" and ends)),
            is_single=is_single,
        )
        self._pending.append(exchange)
        return exchange

    def _bind(self, body: bytes) -> tuple[str, Statement]:
        portal, name = _texts(body, 2)
        at = len(portal.encode()) + len(name.encode()) + 2
        (count,) = struct.unpack_from("!h", body, at)
        formats = struct.unpack_from(f"!{count}h", body, at + 2)
        at += 2 + 2 * count
        (number,) = struct.unpack_from("!h", body, at)
        at += 2
        raw: list[bytes | None] = []
        for _ in range(number):
            (length,) = struct.unpack_from("!i", body, at)
            at += 4
            raw.append(None if length < 0 else body[at : at + length])
            at += max(length, 0)
        sql, types = self._prepared.get(name, ("", ()))
        forms = formats if count > 1 else (formats or (0,)) * number
        pairs = zip(raw, forms, strict=True)
        values = tuple(None if each is None else _value(each, form) for each, form in pairs)
        return portal, Statement(sql, values, raw=tuple(raw), formats=tuple(forms), types=types)


def _types(parse: bytes) -> tuple[int, ...]:
    at = parse.index(b"\0", parse.index(b"\0") + 1) + 1
    (count,) = struct.unpack_from("!h", parse, at)
    return struct.unpack_from(f"!{count}I", parse, at + 2)


def _value(raw: bytes, form: int) -> str:
    if form == 1 and len(raw) in (1, 2, 4, 8):
        return str(int.from_bytes(raw, "big", signed=True))
    return raw.decode(errors="replace")


def _texts(body: bytes, count: int) -> list[str]:
    parts = body.split(b"\0", count)
    return [part.decode(errors="replace") for part in parts[:count]]


def _split(query: str) -> list[str]:
    """The statements of a simple query; a semicolon inside a literal only makes one too many."""
    return [part for part in query.split(";") if part.strip()]
