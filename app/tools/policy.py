"""The options of a tool and which of them go together."""

import difflib
import inspect
import math
import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Literal, TypedDict, get_args

from pydantic import BaseModel

from app.tools.errors import Flaw

Replay = Literal["read_only", "idempotent", "transactional", "at_most_once"]
OnUnknown = Literal["tell_model", "ask"]
# Called with (ctx, args), sync or async; what it gives back depends on the hook.
Hook = Callable[[Any, dict[str, Any]], Any]
Approval = Literal["never", "always"] | Hook

HOOKS = ("reconcile", "compensate", "precondition", "before")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")


class Options(TypedDict, total=False):
    """What `@tool(...)` takes; docs/tools.md says what each means."""

    name: str
    description: str
    replay: Replay
    approval: Approval
    reconcile: Hook
    compensate: Hook
    precondition: Hook
    before: Hook
    on_unknown: OnUnknown
    timeout: float | None
    attempts: int
    expires: timedelta | None
    external: bool
    result: type[BaseModel] | None
    final: bool


DEFAULTS: Options = {
    "replay": "at_most_once",
    "approval": "never",
    "timeout": 60.0,
    "attempts": 3,
    "expires": None,
    "external": False,
    "result": None,
    "final": False,
}


def complete(options: Mapping[str, Any]) -> dict[str, Any]:
    """All options with their defaults, or a Flaw."""
    _check_names(options)
    if not isinstance(options.get("description", ""), str):
        raise Flaw("description must be text")
    filled: dict[str, Any] = {**DEFAULTS, **options}
    _check_choices(filled)
    for name in HOOKS:
        check_hook(name, filled.get(name))
    _check_numbers(filled)
    _check_result(filled["result"])
    _check_combinations(filled)
    filled.setdefault("on_unknown", "tell_model" if filled["approval"] == "never" else "ask")
    return filled


def check_name(name: object) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise Flaw("the name must be 1 to 128 of the characters a-z A-Z 0-9 _ -")


def _check_names(options: Mapping[str, Any]) -> None:
    known = list(Options.__annotations__)
    for name in options:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
            raise Flaw(f"unknown option {name!r}; {hint}")


def _check_choices(options: Mapping[str, Any]) -> None:
    if options["replay"] not in get_args(Replay):
        raise Flaw(f"replay is {options['replay']!r}; use one of {', '.join(get_args(Replay))}")
    if options.get("on_unknown", "ask") not in get_args(OnUnknown):
        raise Flaw(f"on_unknown is {options['on_unknown']!r}; use 'tell_model' or 'ask'")
    approval = options["approval"]
    if approval in ("never", "always"):
        return
    if isinstance(approval, str) or not callable(approval):
        raise Flaw(f"approval is {approval!r}; use 'never', 'always' or a function (ctx, args)")
    check_hook("approval", approval)


def check_hook(name: str, hook: object) -> None:
    if hook is None:
        return
    if not callable(hook):
        raise Flaw(f"{name} is {hook!r}; give a function (ctx, args)")
    try:
        inspect.signature(hook).bind(None, {})
    except TypeError:
        raise Flaw(f"{name} must be callable with (ctx, args)") from None
    except ValueError:
        return


def _check_numbers(options: Mapping[str, Any]) -> None:
    attempts, timeout, expires = options["attempts"], options["timeout"], options["expires"]
    if not isinstance(attempts, int) or isinstance(attempts, bool) or attempts < 1:
        raise Flaw(f"attempts is {attempts!r}; use a whole number of at least 1")
    if timeout is not None and not _is_positive(timeout):
        raise Flaw(f"timeout is {timeout!r}; use seconds above 0, or None for no limit")
    if expires is not None and not (isinstance(expires, timedelta) and expires > timedelta()):
        raise Flaw(f"expires is {expires!r}; use a timedelta above 0")


def _is_positive(number: object) -> bool:
    if isinstance(number, bool) or not isinstance(number, int | float):
        return False
    return math.isfinite(number) and number > 0


def _check_result(model: object) -> None:
    if model is not None and not (isinstance(model, type) and issubclass(model, BaseModel)):
        raise Flaw(f"result is {model!r}; use a pydantic model class")


def _check_combinations(options: Mapping[str, Any]) -> None:
    replay = options["replay"]
    if options.get("reconcile") and replay in ("read_only", "transactional"):
        raise Flaw(f"reconcile has no meaning with replay={replay!r}: its outcome is never unknown")
    if options.get("compensate") and replay == "read_only":
        raise Flaw("compensate has no meaning with replay='read_only': there is nothing to undo")
    if not options["external"]:
        return
    if replay == "transactional":
        raise Flaw("external and replay='transactional' exclude each other: a client runs the tool")
    if options.get("reconcile"):
        raise Flaw("external and reconcile exclude each other: the client posts the outcome")
