"""Facts for clients, numbered per run without gaps."""

from app.domain.canonical import encode
from app.store.db import Connection, row


async def tell(connection: Connection, run: str, kind: str, **data: object) -> None:
    """Appends one event. The caller holds the run's row, or has just made it."""
    await row(
        connection,
        "select perdure.tell(%(run)s, array[%(kind)s::text], array[%(data)s::json])",
        run=run,
        kind=kind,
        data=encode(data),
    )
