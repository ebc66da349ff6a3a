"""`@tool`: a function, its input schema and what its author promises about running it again."""

import asyncio
import copy
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, Literal, Unpack, overload

from pydantic import BaseModel, ValidationError

from app.domain.canonical import Json, encode
from app.errors import Fenced
from app.tools import policy, signature
from app.tools.context import ToolContext
from app.tools.errors import (
    Flaw,
    InvalidArguments,
    ToolAborted,
    ToolDefinitionError,
    ToolHookError,
)
from app.tools.outcomes import CannotTell, DidNotHappen, Happened, Verdict
from app.tools.policy import Approval, Hook, OnUnknown, Options, Replay
from app.tools.schema import first_paragraph, json_schema, problems
from app.tools.threads import run_in_thread
from app.tools.values import to_json

Waits = Literal["external", "input", "timer", "child"]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Tool:
    """A declared tool. Calling it calls the function itself, as in a unit test.

    `waits`: instead of running its function, a call waits for an answer of this kind."""

    name: str
    description: str
    replay: Replay
    approval: Approval
    reconcile: Hook | None
    compensate: Hook | None
    precondition: Hook | None
    before: Hook | None
    on_unknown: OnUnknown
    timeout: float | None
    attempts: int
    expires: timedelta | None
    external: bool
    result_model: type[BaseModel] | None
    final: bool
    is_async: bool
    source: str
    signature: signature.Signature
    waits: Waits | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as the function
        return self.signature.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"Tool({self.name!r}, replay={self.replay!r})"

    @property
    def input_schema(self) -> dict[str, Any]:
        return self.signature.input_schema

    @property
    def takes_context(self) -> bool:
        return self.signature.context is not None

    def parse(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments as they are stored: validated, defaults filled in, plain JSON."""
        if not isinstance(arguments, Mapping):
            raise InvalidArguments(f"{self.name}: the arguments must be an object")
        try:
            checked = self.signature.validate(arguments)
            encode(checked)
        except ValidationError as error:
            raise InvalidArguments(f"{self.name}: {problems(error)}") from error
        except (ValueError, RecursionError) as error:
            raise InvalidArguments(f"{self.name}: the arguments are not plain JSON") from error
        return checked

    def bind(self, ctx: ToolContext, arguments: Mapping[str, Any]) -> Callable[[], object]:
        """The call itself, not yet made; nothing of the tool has run when this raises."""
        try:
            return self.signature.bind(ctx, arguments)
        except ValidationError as error:
            raise InvalidArguments(f"{self.name}: {problems(error)}") from error

    async def invoke(self, ctx: ToolContext, arguments: Mapping[str, Any]) -> object:
        """Run the function with stored arguments; a sync one runs in a thread."""
        return await _run(self.bind(ctx, arguments), self.is_async)

    def encode_result(self, value: object) -> Json:
        return to_json(value, self.result_model)

    async def needs_approval(self, ctx: ToolContext, args: Mapping[str, Any]) -> bool:
        if self.approval == "never" or self.approval == "always":
            return self.approval == "always"
        answer = await _ask(self.approval, ctx, args)
        if not isinstance(answer, bool):
            raise ToolHookError(f"{self.name}: approval returned {_kind(answer)}, not bool")
        return answer

    async def run_before(self, ctx: ToolContext, args: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments after the `before` hook, validated again."""
        if self.before is None:
            return dict(args)
        changed = await _ask(self.before, ctx, args)
        if not isinstance(changed, Mapping):
            raise ToolHookError(f"{self.name}: before returned {_kind(changed)}, not arguments")
        return self.parse(changed)

    async def ask_reconcile(self, ctx: ToolContext, args: Mapping[str, Any]) -> Verdict:
        if self.reconcile is None:
            return CannotTell()
        verdict = await _ask(self.reconcile, ctx, args)
        if not isinstance(verdict, Happened | DidNotHappen | CannotTell):
            raise ToolHookError(
                f"{self.name}: reconcile returned {_kind(verdict)}, "
                "not Happened(...), DidNotHappen() or CannotTell()"
            )
        return verdict

    async def read_precondition(self, ctx: ToolContext, args: Mapping[str, Any]) -> Json:
        """What the world looks like now, as JSON fit to be shown; None without the hook."""
        if self.precondition is None:
            return None
        return ctx.redact_json(to_json(await _ask(self.precondition, ctx, args)))

    def definition(self) -> dict[str, Any]:
        """All that is declared, as JSON; code is not part of it."""
        result = None if self.result_model is None else json_schema(self.result_model)
        return {
            "name": self.name,
            "description": self.description,
            "input_schema": copy.deepcopy(self.input_schema),
            "replay": self.replay,
            "approval": self.approval if isinstance(self.approval, str) else "callable",
            "has": {hook: getattr(self, hook) is not None for hook in policy.HOOKS},
            "on_unknown": self.on_unknown,
            "timeout": self.timeout,
            "attempts": self.attempts,
            "expires": None if self.expires is None else self.expires.total_seconds(),
            "external": self.external,
            "result_schema": result,
            "final": self.final,
        }


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(**options: Unpack[Options]) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(function: Callable[..., Any] | None = None, /, **options: Any) -> object:
    """Declare a function as a tool: `@tool` or `@tool(replay="idempotent", ...)`."""
    scope = sys._getframe(1).f_locals
    if function is None:
        return partial(_declare, scope=scope, options=options)
    return _declare(function, scope=scope, options=options)


def _declare(
    function: Callable[..., Any], *, scope: Mapping[str, Any], options: Mapping[str, Any]
) -> Tool:
    name = options.get("name", getattr(function, "__name__", repr(function)))
    source = _source(function)
    try:
        return _build(function, name, source, scope, options)
    except Flaw as flaw:
        raise ToolDefinitionError(source, f"tool {name!r}: {flaw}") from flaw.__cause__


def _build(
    function: Callable[..., Any],
    name: str,
    source: str,
    scope: Mapping[str, Any],
    options: Mapping[str, Any],
) -> Tool:
    _check_function(function)
    policy.check_name(name)
    _check_hooks(options)
    chosen = policy.complete(options)
    read = signature.read(function, scope)
    if chosen["replay"] == "transactional" and read.context is None:
        raise Flaw("replay='transactional' works through ctx.connection; add `ctx: ToolContext`")
    kept = ("replay", "approval", "on_unknown", "timeout", "attempts", "expires", "external")
    same: dict[str, Any] = {name: chosen.get(name) for name in (*kept, "final", *policy.HOOKS)}
    return Tool(
        name=name,
        description=chosen.get("description", first_paragraph(function)),
        is_async=inspect.iscoroutinefunction(function),
        source=source,
        signature=read,
        result_model=chosen["result"],
        waits="external" if chosen["external"] else None,
        **same,
    )


def _check_function(function: object) -> None:
    if isinstance(function, Tool):
        raise Flaw("it is a tool already; decorate it once")
    if not inspect.isfunction(function):
        raise Flaw("only a plain function can be a tool")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise Flaw("it yields; a tool returns one result")


def _check_hooks(options: Mapping[str, Any]) -> None:
    for hook in (*policy.HOOKS, "approval"):
        if isinstance(options.get(hook), Tool):
            raise Flaw(f"{hook} is a tool; give a plain function (ctx, args)")


def _source(function: Callable[..., Any]) -> str:
    function = function.signature.function if isinstance(function, Tool) else function
    code = getattr(inspect.unwrap(function), "__code__", None)
    return "unknown file:0" if code is None else f"{code.co_filename}:{code.co_firstlineno}"


async def _ask(hook: Hook, ctx: ToolContext, args: Mapping[str, Any]) -> object:
    """A hook gets arguments of its own: what it changes in place changes nothing stored."""
    call = partial(hook, ctx, copy.deepcopy(dict(args)))
    return await _run(call, inspect.iscoroutinefunction(hook))


async def _run(call: Callable[[], object], is_async: bool) -> object:
    try:
        result = call() if is_async else await run_in_thread(call)
        return await result if inspect.isawaitable(result) else result
    except (Exception, Fenced):
        raise
    except BaseException as error:
        # Unless this very task is being cancelled, it would end the worker, not the call.
        task = asyncio.current_task()
        cancelled = isinstance(error, asyncio.CancelledError)
        if cancelled and task is not None and task.cancelling():
            raise
        raise ToolAborted(f"raised {type(error).__name__}") from error


def _kind(value: object) -> str:
    return value.__name__ + " itself" if isinstance(value, type) else type(value).__name__
