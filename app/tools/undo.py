"""A tool's `compensate` hook, as a tool that undoes one of its calls."""

import copy
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from app.tools.context import ToolContext
from app.tools.declare import Tool
from app.tools.policy import Hook
from app.tools.signature import Signature


@dataclass(frozen=True)
class HookSignature(Signature):
    """Takes the arguments of the call that it undoes, which were checked when that was made."""

    def validate(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        return dict(arguments)

    def bind(self, ctx: ToolContext, arguments: Mapping[str, Any]) -> Callable[[], object]:
        return partial(self.function, ctx, copy.deepcopy(dict(arguments)))


def undo_of(tool: Tool) -> Tool | None:
    """Under the tool's own replay policy. What became of an undo is told, never asked."""
    hook = tool.compensate
    if hook is None:
        return None
    return replace(
        tool,
        approval="never",
        reconcile=None,
        compensate=None,
        precondition=None,
        before=None,
        on_unknown="tell_model",
        external=False,
        waits=None,
        result_model=None,
        final=False,
        is_async=_is_async(hook),
        signature=HookSignature(
            function=hook, model=tool.signature.model, names=(), context=None, input_schema={}
        ),
    )


def _is_async(hook: Hook) -> bool:
    """Also for an object that is called."""
    return inspect.iscoroutinefunction(hook) or inspect.iscoroutinefunction(type(hook).__call__)
