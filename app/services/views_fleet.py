"""Agents, their tools and workers as JSON."""

from collections.abc import Sequence

from app.services.context import Services
from app.services.views_pages import Listing, Position, name, number
from app.services.views_shapes import Json, moment
from app.store import views_fleet
from app.store.db import Row


async def list_agents(services: Services, listing: Listing) -> Json:
    start = listing.start(name)
    async with services.database.connection() as connection:
        found = await views_fleet.agents(connection)
        live = await views_fleet.live_agents(connection)
    agents = [_agent(agent, live) for agent in found]
    rest = [agent for agent in agents if start is None or agent["name"] > start[0]]
    return listing.page(rest, dict, lambda agent: (agent["name"],))


async def list_tools(services: Services, listing: Listing) -> Json:
    start = listing.start(name, number)
    async with services.database.connection() as connection:
        agents = await views_fleet.agents(connection)
    tools = sorted(
        (
            ((agent["name"], place), _tool(tool, agent))
            for agent in agents
            for place, tool in enumerate(agent["definition"]["tools"])
        ),
        key=lambda tool: tool[0],
    )
    rest = [tool for tool in tools if start is None or tool[0] > start]
    return listing.page(rest, lambda tool: tool[1], lambda tool: tool[0])


async def list_workers(services: Services, listing: Listing) -> Json:
    start = listing.start(number, name)
    async with services.database.connection() as connection:
        found = await views_fleet.workers(connection)
    workers = sorted(map(_worker, found), key=_by_life)
    rest = [worker for worker in workers if start is None or _by_life(worker) > start]
    return listing.page(rest, dict, _by_life)


def _by_life(worker: Json) -> Position:
    """The living first."""
    return (0 if worker["lease"] == "held" else 1, worker["id"])


def _agent(agent: Row, live: Sequence[set[str]]) -> Json:
    definition = agent["definition"]
    return {
        "name": agent["name"],
        "version": agent["version"],
        "model": definition["model"],
        "instructions": definition["instructions"],
        "tools": [tool["name"] for tool in definition["tools"]],
        "limits": definition["limits"],
        "worker_count": sum(agent["name"] in agents for agents in live),
    }


def _tool(tool: Json, agent: Row) -> Json:
    rules = agent["definition"]["approvals"]
    return {
        "name": tool["name"],
        "agent": agent["name"],
        "description": tool["description"],
        "input_schema": tool["input_schema"],
        "replay": tool["replay"],
        # The stricter of the tool's own rule and the agent's.
        "approval": "always" if rules.get(tool["name"]) == "always" else tool["approval"],
        "has": tool["has"],
        "timeout": tool["timeout"],
        "attempts": tool["attempts"],
        "external": tool["external"],
    }


def _worker(worker: Row) -> Json:
    return {
        "id": worker["id"],
        "host": worker["host"],
        "pid": worker["pid"],
        "version": worker["version"],
        "agents": sorted(worker["agents"]),
        "started_at": moment(worker["started_at"]),
        "lease": "held" if worker["holds_lease"] else "lost",
        "last_beat_at": moment(worker["last_beat_at"]),
        "leaving": worker["leaving"],
        "isolated": worker["isolated"],
        "legs": worker["legs"] or [],
    }
