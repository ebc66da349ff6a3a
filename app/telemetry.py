"""Logs: one line per record on stderr, JSON for machines and plain text for a terminal."""

import json
import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import TextIO

# Chatty or promotional at INFO; at DEBUG some of them print requests with their headers.
QUIET = ("alembic", "anthropic", "dbos", "httpcore", "httpx", "httpx2", "sqlalchemy", "uvicorn")

_place: ContextVar[Mapping[str, str | int]] = ContextVar("place", default=MappingProxyType({}))


@contextmanager
def place(**where: str | int) -> Iterator[None]:
    """Name the run, leg and so on that every line logged inside belongs to."""
    token = _place.set({**_place.get(), **where})
    try:
        yield
    finally:
        _place.reset(token)


def configure(level: str, stream: TextIO | None = None) -> None:
    """Send all logging of this process to `stream` (stderr)."""
    # A line that cannot be written, as where a tool has closed the stream, stops nobody.
    logging.raiseExceptions = False
    stream = stream or sys.stderr
    handler = logging.StreamHandler(stream)
    handler.addFilter(_add_place)
    handler.setFormatter(_Plain() if stream.isatty() else _Json())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name in QUIET:
        logging.getLogger(name).setLevel(max(root.level, logging.WARNING))
    # DBOS brings a handler of its own, unless it finds one.
    dbos = logging.getLogger("dbos")
    dbos.handlers[:] = [logging.NullHandler()]
    dbos.propagate = True


def _add_place(record: logging.LogRecord) -> bool:
    record.place = _place.get()
    return True


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "at": _timestamp(self, record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **record.__dict__["place"],
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class _Plain(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        where = "".join(f" {name}={value}" for name, value in record.__dict__["place"].items())
        time = self.formatTime(record, "%H:%M:%S")
        line = f"{time} {record.levelname:<7} {record.name}: {record.getMessage()}{where}"
        if record.exc_info:
            line = f"{line}\n{self.formatException(record.exc_info)}"
        return line


def _timestamp(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    seconds = formatter.formatTime(record, "%Y-%m-%dT%H:%M:%S")
    return f"{seconds}.{int(record.msecs):03d}{formatter.formatTime(record, '%z')}"
