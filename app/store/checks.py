"""Whether a database keeps what it promises, and has the schema this code needs."""

from app.store import migrate
from app.store.db import Connection, row


async def check_database(connection: Connection, *, allow_unsafe: bool) -> list[str]:
    """What is wrong with it, each with what to do; empty when it may be used."""
    problems = [] if allow_unsafe else await check_durability(connection)
    revision = await migrate.revision(connection)
    if revision is None:
        problems.append("It has no Perdure schema; run `perdure migrate`.")
    elif migrate.is_older(revision):
        problems.append(
            f"Its schema is at {revision}, older than this version; run `perdure migrate`."
        )
    return problems


async def check_durability(connection: Connection) -> list[str]:
    """Settings under which a commit is no promise."""
    found = await row(
        connection,
        """select current_setting('fsync') as fsync,
               current_setting('synchronous_commit') as synchronous_commit""",
    )
    return [
        f"{name} is off, so a crash of the database can undo what has been answered; "
        "turn it on, or set PERDURE_ALLOW_UNSAFE_DATABASE=1 to accept that."
        for name, value in (found or {}).items()
        if value == "off"
    ]
