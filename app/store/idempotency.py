"""Which request a key has already been spent on."""

from app.store.db import Connection, Row, row


async def spend(
    connection: Connection, caller: str, key: str, fingerprint: str, run: str
) -> Row | None:
    """None: the key is ours now. Else the first request, once it is through: {fingerprint, run}."""
    ours = await row(
        connection,
        """insert into perdure.idempotency (caller, key, fingerprint, run)
           values (%(caller)s, %(key)s, %(fingerprint)s, %(run)s)
           on conflict do nothing returning run""",
        caller=caller,
        key=key,
        fingerprint=fingerprint,
        run=run,
    )
    return None if ours is not None else await find(connection, caller, key)


async def find(connection: Connection, caller: str, key: str) -> Row | None:
    return await row(
        connection,
        """select fingerprint, run from perdure.idempotency
           where caller = %(caller)s and key = %(key)s""",
        caller=caller,
        key=key,
    )


async def point(connection: Connection, caller: str, key: str, run: str) -> None:
    """The request was answered with a run that was there already."""
    await row(
        connection,
        """update perdure.idempotency set run = %(run)s
           where caller = %(caller)s and key = %(key)s returning run""",
        caller=caller,
        key=key,
        run=run,
    )
