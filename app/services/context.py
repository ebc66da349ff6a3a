"""What every use case works with."""

from dataclasses import dataclass

from app.durable.enqueue import Legs
from app.store.db import Database
from app.store.notify import Notifier


@dataclass(frozen=True)
class Services:
    database: Database
    legs: Legs
    notifier: Notifier


@dataclass(frozen=True)
class Caller:
    """Who asks, from the credential, and over which channel."""

    actor: str
    channel: str = "http"
