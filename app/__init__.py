"""Perdure: agents with tools that survive the death of any process."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

_PLACES = {
    "app.domain.limits": ("Limits",),
    "app.tools.agent": ("Agent",),
    "app.tools.builtin": ("ask_user", "delegate", "sleep_for", "sleep_until"),
    "app.tools.context": ("ToolContext",),
    "app.tools.declare": ("tool",),
    "app.tools.outcomes": ("CannotTell", "DidNotHappen", "Happened", "ToolError"),
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - as each of them is
    """Imported when first asked for: clients and most commands need none of them."""
    for place, names in _PLACES.items():
        if name in names:
            value = globals()[name] = getattr(import_module(place), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
