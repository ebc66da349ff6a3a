"""The agents that this process knows."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType, ModuleType
from typing import Self

from app.tools.agent import Agent
from app.tools.declare import Tool
from app.tools.errors import AgentLoadError
from app.tools.loading import load_module


@dataclass(frozen=True)
class Registry:
    agents: Mapping[str, Agent]

    @classmethod
    def of(cls, agents: Iterable[Agent]) -> Self:
        named: dict[str, Agent] = {}
        for agent in agents:
            first = named.setdefault(agent.name, agent)
            if not _is_same(first, agent):
                places = f"{first.source} and {agent.source}"
                raise AgentLoadError(
                    agent.source, f"two agents are named {agent.name!r}: {places}; rename one"
                )
        return cls(MappingProxyType(named))

    def agent(self, name: str) -> Agent | None:
        return self.agents.get(name)

    def tool(self, agent_name: str, tool_name: str) -> Tool | None:
        agent = self.agent(agent_name)
        return None if agent is None else agent.tool(tool_name)


def load(spec: str) -> Registry:
    """Agents of a comma list of modules (`package.module`) and files (`path/to/agents.py`)."""
    places = [place.strip() for place in spec.split(",") if place.strip()]
    if not places:
        raise AgentLoadError("PERDURE_AGENTS", "names no module; write for example app.agents")
    return Registry.of(agent for place in places for agent in _agents_of(place))


def _agents_of(place: str) -> list[Agent]:
    module = load_module(place)
    found = [value for value in vars(module).values() if isinstance(value, Agent)]
    if not found:
        raise AgentLoadError(
            _file(module, place), "defines no Agent at top level; add `desk = Agent(...)`"
        )
    return found


def _file(module: ModuleType, place: str) -> str:
    return module.__file__ or place


def _is_same(first: Agent, second: Agent) -> bool:
    """One file may have been loaded under two module names."""
    return first is second or (first.source == second.source and first.version == second.version)
