"""Waits: what a run is parked on. Opened by the ledger, resolved here."""

from app.store.db import Connection, Row, call, rows


async def resolve(
    connection: Connection,
    wait: str,
    resolution: str,
    *,
    arguments_hash: str | None,
    by: str,
    on_behalf_of: str | None,
    via: str,
) -> Row:
    """{verdict, run, leg, cancelling}; the leg is to be enqueued in the same transaction.

    `resolution` is canonical JSON."""
    return await call(
        connection,
        "resolve_wait",
        wait=wait,
        resolution=resolution,
        arguments_hash=arguments_hash,
        by=by,
        on_behalf_of=on_behalf_of,
        via=via,
    )


async def due(connection: Connection, limit: int) -> list[str]:
    """Waits that the clock has caught up with. Read without locks: `expire` looks again."""
    found = await rows(
        connection,
        """select id from perdure.waits where state = 'open' and deadline <= clock_timestamp()
           order by deadline limit %(limit)s""",
        limit=limit,
    )
    return [each["id"] for each in found]


async def expire(connection: Connection, wait: str) -> Row:
    """{run, leg}, both null where another process is at it."""
    return await call(connection, "expire_due", wait=wait)


async def to_remind(connection: Connection, limit: int) -> list[str]:
    """Questions whose time is running out, unsaid so far."""
    found = await rows(
        connection,
        """select id from perdure.waits where state = 'open' and remind_at <= clock_timestamp()
           order by remind_at limit %(limit)s""",
        limit=limit,
    )
    return [each["id"] for each in found]


async def remind(connection: Connection, wait: str) -> str | None:
    """The run that was told, if it was."""
    run: str | None = (await call(connection, "remind", wait=wait))["remind"]
    return run
