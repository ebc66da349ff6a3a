"""A tool that cannot work is refused where it is declared, with file, line and a way out."""

import functools
import inspect
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from app import ToolContext, tool
from app.tools.errors import ToolDefinitionError


async def plain(ctx: ToolContext, order: str) -> str:
    """A function that makes a fine tool."""
    return order


async def hook(ctx: ToolContext, args: dict[str, Any]) -> None:
    """A function that makes a fine hook."""


def refusal(function: Callable[..., Any], **options: Any) -> str:
    with pytest.raises(ToolDefinitionError) as refused:
        tool(**options)(function)
    return str(refused.value)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"replay": "sometimes"}, "replay is 'sometimes'; use one of read_only, idempotent,"),
        ({"approval": "maybe"}, "approval is 'maybe'; use 'never', 'always' or a function"),
        ({"approval": True}, "approval is True; use"),
        ({"approval": lambda args: True}, "approval must be callable with (ctx, args)"),
        ({"reconcile": "find"}, "reconcile is 'find'; give a function (ctx, args)"),
        ({"compensate": 1}, "compensate is 1; give a function (ctx, args)"),
        ({"precondition": lambda: 1}, "precondition must be callable with (ctx, args)"),
        ({"before": lambda ctx: ctx}, "before must be callable with (ctx, args)"),
        ({"compensate": tool(plain)}, "compensate is a tool; give a plain function"),
        ({"on_unknown": "guess"}, "on_unknown is 'guess'; use 'tell_model' or 'ask'"),
        ({"attempts": 0}, "attempts is 0; use a whole number of at least 1"),
        ({"attempts": 1.5}, "attempts is 1.5; use a whole number"),
        ({"attempts": True}, "attempts is True; use a whole number"),
        ({"timeout": 0}, "timeout is 0; use seconds above 0"),
        ({"timeout": -1.0}, "timeout is -1.0; use seconds above 0"),
        ({"timeout": float("nan")}, "timeout is nan; use seconds above 0"),
        ({"timeout": "30"}, "timeout is '30'; use seconds above 0"),
        ({"expires": timedelta()}, "use a timedelta above 0"),
        ({"expires": 60}, "expires is 60; use a timedelta"),
        ({"result": dict}, "result is <class 'dict'>; use a pydantic model class"),
        ({"name": "send money"}, "the name must be 1 to 128 of the characters"),
        ({"name": ""}, "the name must be 1 to 128"),
        ({"name": "x" * 129}, "the name must be 1 to 128"),
        ({"name": "pay\n"}, "the name must be 1 to 128"),
        ({"description": 1}, "description must be text"),
        ({"aproval": "always"}, "unknown option 'aproval'; did you mean 'approval'?"),
        ({"zzz": 1}, "unknown option 'zzz'; there are name, description, replay"),
        ({"reconcile": hook, "replay": "read_only"}, "its outcome is never unknown"),
        ({"reconcile": hook, "replay": "transactional"}, "its outcome is never unknown"),
        ({"compensate": hook, "replay": "read_only"}, "there is nothing to undo"),
        ({"external": True, "replay": "transactional"}, "a client runs the tool"),
        ({"external": True, "reconcile": hook}, "the client posts the outcome"),
    ],
)
def test_an_option_that_makes_no_sense(options: dict[str, Any], reason: str) -> None:
    assert reason in refusal(plain, **options)


def test_the_text_names_tool_file_and_line() -> None:
    line = inspect.getsourcelines(plain)[1]
    assert refusal(plain, attempts=0).startswith(f"{__file__}:{line}: tool 'plain': ")


def test_a_bare_decorator_names_file_and_line_too() -> None:
    async def unhinted(order) -> None: ...  # type: ignore[no-untyped-def]  # noqa: ANN001

    with pytest.raises(ToolDefinitionError) as refused:
        tool(unhinted)
    line = inspect.getsourcelines(unhinted)[1]
    assert refused.value.source == f"{__file__}:{line}"
    assert "parameter 'order' has no type hint; write for example `order: str`" in str(
        refused.value
    )


def test_a_wrapped_function_is_found_where_it_is_written() -> None:
    @functools.wraps(plain)
    async def wrapper(*args: Any, **kwargs: Any) -> object:
        return await plain(*args, **kwargs)

    line = inspect.getsourcelines(plain)[1]
    assert refusal(wrapper, attempts=0).startswith(f"{__file__}:{line}: ")


def test_a_transactional_tool_needs_a_context() -> None:
    async def note(text: str) -> None: ...

    assert "add `ctx: ToolContext`" in refusal(note, replay="transactional")


def test_open_ended_parameters() -> None:
    async def many(*orders: str) -> None: ...
    async def any_of(**orders: str) -> None: ...

    assert "*orders: str is open-ended" in refusal(many)
    assert "**orders: str is open-ended" in refusal(any_of)


def test_positional_only_parameters() -> None:
    async def pay(order: str, /) -> None: ...

    assert "parameter 'order' is positional-only; remove the '/'" in refusal(pay)


def test_two_contexts() -> None:
    async def pay(ctx: ToolContext, other: ToolContext) -> None: ...

    assert "it takes two contexts, ctx and other" in refusal(pay)


def test_the_name_of_the_context_is_reserved() -> None:
    async def pay(order: str, ctx: str) -> None: ...

    assert "'ctx' is the name of the context; put it first or rename it" in refusal(pay)


def test_a_method() -> None:
    class Desk:
        async def pay(self, order: str) -> None: ...

    assert "it is a method (it takes 'self')" in refusal(Desk.pay)


def test_a_hint_that_cannot_be_resolved() -> None:
    async def pay(order: "Oder") -> None: ...  # type: ignore[name-defined]  # noqa: F821

    assert "a type hint cannot be resolved: name 'Oder' is not defined" in refusal(pay)


def test_a_type_that_cannot_come_from_json() -> None:
    class Handle: ...

    async def pay(handle: Handle) -> None: ...
    async def call(then: Callable[[], None]) -> None: ...

    assert "a parameter's type cannot come from JSON" in refusal(pay)
    assert "a parameter's type has no JSON schema" in refusal(call)


@pytest.mark.parametrize("default", [None, "many"])
def test_a_default_that_does_not_fit_its_type(default: Any) -> None:  # noqa: ANN401
    async def pay(cents: int = default) -> None: ...

    assert "the default of 'cents' does not fit its type: Input should be" in refusal(pay)


def test_a_default_without_json_form() -> None:
    nothing = object()

    async def pay(note: Any = nothing) -> None: ...  # noqa: ANN401

    assert "the default of 'note' has no JSON form" in refusal(pay)


def test_a_tool_is_not_declared_twice() -> None:
    with pytest.raises(ToolDefinitionError, match="it is a tool already"):
        tool(tool(plain))


def test_only_functions_are_tools() -> None:
    assert "only a plain function can be a tool" in refusal(functools.partial(plain, order="1"))
    assert "only a plain function can be a tool" in refusal(dict)


def test_generators_are_no_tools() -> None:
    def pages() -> Any:  # noqa: ANN401
        yield 1

    async def stream() -> Any:  # noqa: ANN401
        yield 1

    assert "it yields" in refusal(pages)
    assert "it yields" in refusal(stream)
