"""Standing rules: permissions that hold beyond one call."""

from app.store.db import Connection, Row, rows


async def standing(
    connection: Connection, *, run: str, session: str, agent: str, tool: str
) -> list[Row]:
    """{id, conditions} of the rules for a call in this place, oldest first."""
    return await rows(
        connection,
        """select id, conditions from perdure.rules
           where agent = %(agent)s and tool = %(tool)s and revoked_at is null
             and (expires_at is null or expires_at > clock_timestamp())
             and case scope when 'run' then run = %(run)s
                 when 'session' then session = %(session)s else true end
           order by created_at, id""",
        run=run,
        session=session,
        agent=agent,
        tool=tool,
    )
