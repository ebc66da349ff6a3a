"""The invariants that must hold whenever a test is over."""

import asyncio
import time

from app.store.audit import audit
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

# A run may end a moment before its leg does; what lasts longer is a breach.
SETTLING_SECONDS = 10.0


async def breaches(database_url: str) -> list[str]:
    """The broken invariants that do not mend by themselves."""
    url = database_url.replace("postgresql://", "postgresql+psycopg://", 1)
    engine = create_async_engine(url, poolclass=NullPool)
    deadline = time.monotonic() + SETTLING_SECONDS
    try:
        while True:
            async with engine.connect() as connection:
                found = await audit(connection)
            if not found or time.monotonic() > deadline:
                return found
            await asyncio.sleep(0.1)
    finally:
        await engine.dispose()
