"""What a tool or its reconcile hook can say about an effect."""

from dataclasses import dataclass
from typing import Any


class ToolError(Exception):
    """Raise it in a tool: the call failed, and the model is told this text."""


@dataclass(frozen=True)
class Happened:
    """The effect took place; `result` is what the call would have returned."""

    result: Any = None


@dataclass(frozen=True)
class DidNotHappen:
    """The effect did not take place."""


@dataclass(frozen=True)
class CannotTell:
    """The outside world does not know either."""


Verdict = Happened | DidNotHappen | CannotTell
