"""What may be run, as the roots of this deployment declared it."""

from typing import Any

from app.domain.canonical import encode
from app.store.db import Connection, Row, row, rows


async def register(
    connection: Connection, name: str, version: str, definition: dict[str, Any]
) -> None:
    await row(
        connection,
        """with version as (
               insert into perdure.agent_versions (agent, version, definition)
               values (%(name)s, %(version)s, %(definition)s) on conflict do nothing)
           insert into perdure.agents (name, version) values (%(name)s, %(version)s)
           on conflict (name) do update
               set version = excluded.version, registered_at = now() returning name""",
        name=name,
        version=version,
        definition=encode(definition),
    )


async def find(connection: Connection, name: str) -> Row | None:
    """Its name, current version and definition."""
    return await row(
        connection,
        """select a.name, a.version, v.definition from perdure.agents a
           join perdure.agent_versions v on v.agent = a.name and v.version = a.version
           where a.name = %(name)s""",
        name=name,
    )


async def served(connection: Connection) -> list[str]:
    """The names of those that a living worker has."""
    found = await rows(
        connection,
        """select name from perdure.agents
           where name in (select jsonb_array_elements_text(agents)
                          from perdure.workers where dead_at is null)
           order by name""",
    )
    return [each["name"] for each in found]
