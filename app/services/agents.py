"""Making agents known."""

from app.store import agents
from app.store.db import Database
from app.tools.registry import Registry


async def register(database: Database, registry: Registry) -> None:
    """The last one to register decides which version new runs get."""
    async with database.connection() as connection:
        for agent in registry.agents.values():
            await agents.register(connection, agent.name, agent.version, agent.definition())
