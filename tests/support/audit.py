"""The invariants that must hold whenever a test is over."""

import asyncio
import time

import psycopg

from app.store.audit import audit

# A run may end a moment before its leg does; what lasts longer is a breach.
SETTLING_SECONDS = 10.0


async def breaches(database_url: str) -> list[str]:
    """The broken invariants that do not mend by themselves."""
    deadline = time.monotonic() + SETTLING_SECONDS
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        while True:
            found = await audit(connection)
            if not found or time.monotonic() > deadline:
                return found
            await asyncio.sleep(0.1)
