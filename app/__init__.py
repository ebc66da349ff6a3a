"""Perdure: agents with tools that survive the death of any process."""

from app.domain.limits import Limits
from app.tools.agent import Agent
from app.tools.builtin import ask_user, delegate, sleep_for, sleep_until
from app.tools.context import ToolContext
from app.tools.declare import tool
from app.tools.outcomes import CannotTell, DidNotHappen, Happened, ToolError

__all__ = [
    "Agent",
    "CannotTell",
    "DidNotHappen",
    "Happened",
    "Limits",
    "ToolContext",
    "ToolError",
    "ask_user",
    "delegate",
    "sleep_for",
    "sleep_until",
    "tool",
]
