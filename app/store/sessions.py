"""Sessions and targets: what runs work on, at most one active run on each.

Their rows come first in the lock order, sessions before targets, then the parent of a run.
"""

from app.store import runs
from app.store.db import Connection, Row, row, rows


async def make(connection: Connection, session: str, target: str | None) -> None:
    """The session and the target that a run is about to work on."""
    await row(
        connection,
        "insert into perdure.sessions (id) values (%(id)s) on conflict do nothing returning id",
        id=session,
    )
    if target is not None:
        await row(
            connection,
            """insert into perdure.targets (name) values (%(name)s)
               on conflict do nothing returning name""",
            name=target,
        )


async def lock_session(connection: Connection, session: str) -> None:
    await row(
        connection,
        "select id from perdure.sessions where id = %(id)s for no key update",
        id=session,
    )


async def lock_target(connection: Connection, target: str) -> bool:
    """False where there is no such target."""
    found = await row(
        connection,
        "select name from perdure.targets where name = %(name)s for no key update",
        name=target,
    )
    return found is not None


async def lock_below(connection: Connection, *above: str, session: str | None = None) -> set[str]:
    """The sessions of some runs and of all below them, and `session`, in one order for all.

    Those that there are."""
    found = await rows(
        connection,
        """select id from perdure.sessions
           where id = %(session)s or id in (
               select below.session from unnest(%(above)s::text[]) run, perdure.tree(run) below)
           order by id for no key update""",
        session=session,
        above=list(above),
    )
    return {each["id"] for each in found}


async def lock(connection: Connection, session: str, target: str | None) -> None:
    """The session's and the target's row: first in the lock order, sessions before targets."""
    await lock_session(connection, session)
    if target is not None:
        await lock_target(connection, target)


async def lock_of(connection: Connection, run: str) -> Row | None:
    """Locks what a run works on and its parent, which never change: {id, session, target}."""
    found = await row(
        connection,
        "select id, session, target, parent from perdure.runs where id = %(run)s",
        run=run,
    )
    if found is not None:
        await lock(connection, found["session"], found["target"])
        if found["parent"] is not None:
            await runs.lock(connection, found["parent"])
    return found


async def active(connection: Connection, session: str, target: str | None) -> list[Row]:
    """Runs that hold the session or the target, oldest first."""
    return await rows(
        connection,
        """select id, status, session, target, parent from perdure.runs
           where finished_at is null and (session = %(session)s or target = %(target)s)
           order by place""",
        session=session,
        target=target,
    )


async def release_held(connection: Connection, session: str, target: str | None) -> list[Row]:
    return await rows(
        connection,
        "select * from perdure.release_held(%(session)s, %(target)s)",
        session=session,
        target=target,
    )
