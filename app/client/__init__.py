"""The Python client: `Perdure` for ordinary code, `AsyncPerdure` for asyncio.

It speaks HTTP and imports nothing of the service.
"""

from app.client import errors, models
from app.client.aio import AsyncPerdure, AsyncRun
from app.client.errors import ClientError, Problem, StillRunning, Uncertain, Unreachable
from app.client.sync import Perdure, Run

__all__ = [
    "AsyncPerdure",
    "AsyncRun",
    "ClientError",
    "Perdure",
    "Problem",
    "Run",
    "StillRunning",
    "Uncertain",
    "Unreachable",
    "errors",
    "models",
]
