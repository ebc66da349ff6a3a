"""Sessions with their runs."""

from app.store.db import Connection, Row, row


async def get(connection: Connection, session: str) -> Row | None:
    return await row(
        connection,
        """
        select session.*,
            array(
                select run.id from perdure.runs run
                where run.session = session.id order by run.place
            ) as runs,
            (
                select run.id from perdure.runs run
                where run.session = session.id and run.finished_at is null and not run.held
                order by run.place limit 1
            ) as active_run
        from perdure.sessions session where session.id = %(session)s
        """,
        session=session,
    )


async def speaking(connection: Connection, session: str) -> Row | None:
    """{run}: the one that has, or had last, the session's ear; null in a session without runs."""
    return await row(
        connection,
        """
        select (
            select run.id from perdure.runs run
            where run.session = session.id and not run.held
            order by run.finished_at is null desc, run.place desc limit 1
        ) as run
        from perdure.sessions session where session.id = %(session)s
        """,
        session=session,
    )
