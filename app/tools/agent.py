"""An agent: a model, its instructions, its tools and how far it may go."""

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal, get_args

from pydantic import BaseModel
from pydantic.errors import PydanticUserError

from app.domain.canonical import canonical_json, digest
from app.domain.limits import Limits
from app.tools.context import ToolContext
from app.tools.declare import Tool
from app.tools.errors import AgentDefinitionError, Flaw
from app.tools.policy import Approval
from app.tools.schema import json_schema

OnDenial = Literal["tell_model", "compensate"]
Rule = Literal["never", "always"]

_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}")


@dataclass(frozen=True, kw_only=True, eq=False)
class Agent:
    """What a run is submitted to. `thinking` goes to the model's API as it is."""

    name: str
    model: str
    instructions: str = ""
    tools: Sequence[Tool] = ()
    limits: Limits = field(default_factory=Limits)
    max_tokens: int = 8192
    thinking: Mapping[str, Any] | None = None
    approvals: Mapping[str, Rule] = field(default_factory=dict)
    output: type[BaseModel] | None = None
    on_denial: OnDenial = "tell_model"
    source: str = field(init=False)

    def __post_init__(self) -> None:
        caller = sys._getframe(2)
        source = f"{caller.f_code.co_filename}:{caller.f_lineno}"
        object.__setattr__(self, "source", source)
        try:
            _check(self)
        except Flaw as flaw:
            problem = f"agent {self.name!r}: {flaw}"
            raise AgentDefinitionError(source, problem) from flaw.__cause__
        object.__setattr__(self, "tools", tuple(self.tools))
        object.__setattr__(self, "approvals", MappingProxyType(dict(self.approvals)))

    def tool(self, name: str) -> Tool | None:
        return next((tool for tool in self.tools if tool.name == name), None)

    def approval_for(self, tool: Tool) -> Approval:
        """The stricter of the tool's own rule and the agent's."""
        return "always" if self.approvals.get(tool.name) == "always" else tool.approval

    async def needs_approval(self, tool: Tool, ctx: ToolContext, args: Mapping[str, Any]) -> bool:
        if self.approval_for(tool) == "always":
            return True
        return await tool.needs_approval(ctx, args)

    def definition(self) -> dict[str, Any]:
        """All that decides how the agent behaves toward the model, as JSON."""
        return {
            "name": self.name,
            "model": self.model,
            "instructions": self.instructions,
            "max_tokens": self.max_tokens,
            "thinking": None if self.thinking is None else dict(self.thinking),
            "limits": self.limits.to_json(),
            "tools": [tool.definition() for tool in self.tools],
            "approvals": dict(self.approvals),
            "output_schema": None if self.output is None else json_schema(self.output),
            "on_denial": self.on_denial,
        }

    @cached_property
    def version(self) -> str:
        return digest(self.definition())[:12]


def _check(agent: Agent) -> None:
    if not isinstance(agent.name, str) or not _NAME.fullmatch(agent.name):
        raise Flaw("the name must be 1 to 64 of the characters a-z A-Z 0-9 _ . -")
    if not isinstance(agent.model, str) or not agent.model.strip():
        raise Flaw("model is empty; name one, for example 'claude-sonnet-5'")
    if not isinstance(agent.instructions, str):
        raise Flaw(f"instructions must be text, not {type(agent.instructions).__name__}")
    if not isinstance(agent.limits, Limits):
        raise Flaw("limits must be Limits(...)")
    whole = isinstance(agent.max_tokens, int) and not isinstance(agent.max_tokens, bool)
    if not whole or agent.max_tokens < 1:
        raise Flaw(f"max_tokens is {agent.max_tokens!r}; use a whole number of at least 1")
    if agent.on_denial not in get_args(OnDenial):
        raise Flaw(f"on_denial is {agent.on_denial!r}; use 'tell_model' or 'compensate'")
    _check_tools(agent.tools)
    _check_approvals(agent.approvals, agent.tools)
    _check_thinking(agent.thinking)
    _check_output(agent.output)


def _check_tools(tools: Sequence[object]) -> None:
    seen: dict[str, Tool] = {}
    for place, tool in enumerate(tools):
        if not isinstance(tool, Tool):
            name = getattr(tool, "__name__", repr(tool))
            raise Flaw(f"tools[{place}] ({name}) is not a tool; decorate it with @tool")
        if tool.name in seen:
            first = seen[tool.name].source
            raise Flaw(f"two tools are named {tool.name!r}: {first} and {tool.source}; rename one")
        seen[tool.name] = tool


def _check_approvals(approvals: Mapping[str, Rule], tools: Sequence[Tool]) -> None:
    names = [tool.name for tool in tools]
    for name, rule in approvals.items():
        if name not in names:
            known = ", ".join(names) or "none"
            raise Flaw(f"approvals names {name!r}, which is none of its tools ({known})")
        if rule not in get_args(Rule):
            raise Flaw(f"approvals[{name!r}] is {rule!r}; use 'never' or 'always'")


def _check_thinking(thinking: Mapping[str, Any] | None) -> None:
    if thinking is None:
        return
    try:
        canonical_json(dict(thinking))
    except (TypeError, ValueError):
        raise Flaw("thinking must be a dict of plain JSON, as the model's API takes it") from None


def _check_output(model: object) -> None:
    if model is None:
        return
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        raise Flaw(f"output is {model!r}; use a pydantic model class")
    try:
        json_schema(model)
    except PydanticUserError as error:
        raise Flaw(f"output has no JSON schema: {str(error).splitlines()[0]}") from error
