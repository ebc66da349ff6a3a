"""What every use case works with."""

from dataclasses import dataclass
from typing import Any

from app.domain.canonical import readable
from app.durable.enqueue import Legs
from app.durable.results import LARGEST_BYTES
from app.errors import FieldError, Invalid
from app.store.db import Database
from app.store.notify import Notifier


@dataclass(frozen=True)
class Callbacks:
    """What may be asked for: nothing where it could not be signed."""

    are_signed: bool = False
    may_be_private: bool = False


@dataclass(frozen=True)
class Services:
    database: Database
    legs: Legs
    notifier: Notifier
    # Runs that may be queued under one queue key.
    queue_limit: int
    callbacks: Callbacks = Callbacks()


def refuse_large(said: dict[str, Any]) -> None:
    """What a person says that a call returned goes to the model as if the tool had said it."""
    for name in said.keys() & {"result", "text"}:
        told = said[name] if name == "text" else readable(said[name])
        if len(told.encode()) > LARGEST_BYTES:
            problem = FieldError(name, f"must be at most {LARGEST_BYTES} bytes")
            raise Invalid(f"The {name} is too large.", errors=[problem])


@dataclass(frozen=True)
class Caller:
    """Who asks, from the credential, and over which channel."""

    actor: str
    channel: str = "http"
