"""Standing rules: permissions that hold beyond one call."""

from app.domain.canonical import encode
from app.store.db import Connection, Row, row, rows


async def insert(
    connection: Connection, wait: str, *, scope: str, conditions: object, expires_at: str | None
) -> str | None:
    """Made by the resolution of an approval: its id. None if it has expired already."""
    made = await row(
        connection,
        """insert into perdure.rules (id, scope, agent, session, run, tool, conditions, wait,
               author, on_behalf_of, made_via, expires_at)
           select perdure.new_id('rule'), %(scope)s, r.agent, r.session, r.id, c.tool,
               %(conditions)s, w.id, w.resolved_by, w.on_behalf_of, w.resolved_via,
               %(expires_at)s::timestamptz
           from perdure.waits w
           join perdure.calls c on c.id = w.call
           join perdure.runs r on r.id = w.run
           where w.id = %(wait)s
             and coalesce(%(expires_at)s::timestamptz > clock_timestamp(), true)
           returning id""",
        wait=wait,
        scope=scope,
        conditions=encode(conditions),
        expires_at=expires_at,
    )
    return None if made is None else str(made["id"])


async def revoke(connection: Connection, rule: str, by: str) -> None:
    """The first revocation is the one that is told."""
    await row(
        connection,
        """update perdure.rules set revoked_at = coalesce(revoked_at, now()),
               revoked_by = coalesce(revoked_by, %(by)s)
           where id = %(rule)s returning id""",
        rule=rule,
        by=by,
    )


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
