"""A `compensate` hook as a tool that undoes one call."""

import threading
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from app import CannotTell, ToolContext, tool
from app.tools.context import Done
from app.tools.declare import Tool
from app.tools.undo import undo_of
from tests.unit.tools.contexts import make_context

STORED: dict[str, Any] = {"ref": "a", "lines": [1, {"n": 2}]}


class Receipt(BaseModel):
    id: int


async def nothing(ctx: ToolContext, args: dict[str, Any]) -> None: ...


def make(hook: object, **chosen: Any) -> Tool:
    @tool(compensate=hook, **chosen)  # type: ignore[call-overload, untyped-decorator, unused-ignore]
    async def pay(ctx: ToolContext, ref: str, lines: list[Any]) -> object: ...

    assert isinstance(pay, Tool)
    return pay


def undo(hook: object, **chosen: Any) -> Tool:
    made = undo_of(make(hook, **chosen))
    assert made is not None
    return made


def test_a_tool_without_the_hook_cannot_be_undone() -> None:
    @tool
    def look() -> None: ...

    assert undo_of(look) is None


async def test_an_async_hook_gets_the_arguments_of_the_call_and_its_result() -> None:
    async def refund(ctx: ToolContext, args: dict[str, Any]) -> object:
        assert ctx.done is not None
        return [args, ctx.done.result, ctx.done.idempotency_key, ctx.idempotency_key]

    ctx = make_context(idempotency_key="run_1/3/0", done=Done("run_1/1/0", {"id": 7}))

    assert await undo(refund).invoke(ctx, STORED) == [STORED, {"id": 7}, "run_1/1/0", "run_1/3/0"]


async def test_a_sync_hook_runs_in_a_thread() -> None:
    def refund(ctx: ToolContext, args: dict[str, Any]) -> int:
        return threading.get_ident()

    made = undo(refund)

    assert not made.is_async
    assert await made.invoke(make_context(), STORED) != threading.get_ident()


async def test_a_hook_that_changes_its_arguments_does_not_change_the_stored_ones() -> None:
    def refund(ctx: ToolContext, args: dict[str, Any]) -> None:
        args["lines"][1]["n"] = 9
        args.clear()

    await undo(refund).invoke(make_context(), STORED)

    assert STORED == {"ref": "a", "lines": [1, {"n": 2}]}


async def test_arguments_that_the_tool_would_no_longer_take_still_reach_the_hook() -> None:
    """They were checked when the call was made; no deploy keeps it from being undone."""
    seen = []

    async def refund(ctx: ToolContext, args: dict[str, Any]) -> None:
        seen.append(args)

    made = undo(refund)
    assert made.parse({"of": "another version"}) == {"of": "another version"}
    await made.invoke(make_context(), {"of": "another version"})
    assert seen == [{"of": "another version"}]


@pytest.mark.parametrize("replay", ["idempotent", "transactional", "at_most_once"])
def test_an_undo_keeps_the_promises_of_its_tool(replay: str) -> None:
    made = undo(nothing, replay=replay, timeout=7, attempts=5)

    assert (made.replay, made.timeout, made.attempts, made.name) == (replay, 7, 5, "pay")


async def test_an_undo_asks_nobody_and_runs_no_other_hook() -> None:
    tried = make(
        nothing,
        replay="idempotent",
        approval="always",
        reconcile=nothing,
        precondition=nothing,
        before=nothing,
        on_unknown="ask",
        expires=timedelta(hours=1),
        result=Receipt,
        final=True,
    )

    made = undo_of(tried)

    assert made is not None
    assert not await made.needs_approval(make_context(), STORED)
    assert await made.ask_reconcile(make_context(), STORED) == CannotTell()
    assert await made.read_precondition(make_context(), STORED) is None
    assert await made.run_before(make_context(), STORED) == STORED
    assert (made.on_unknown, made.final, made.result_model) == ("tell_model", False, None)


def test_an_undo_runs_here_though_its_tool_runs_elsewhere() -> None:
    made = undo(nothing, external=True)

    assert (made.external, made.waits) == (False, None)


def test_what_undoes_is_not_undone() -> None:
    assert undo_of(undo(nothing)) is None


async def test_the_exception_of_a_hook_arrives() -> None:
    def refund(ctx: ToolContext, args: dict[str, Any]) -> None:
        raise ConnectionError("bank is away")

    with pytest.raises(ConnectionError, match="bank is away"):
        await undo(refund).invoke(make_context(), STORED)


async def test_the_tool_itself_stays_as_it_was() -> None:
    tried = make(nothing, approval="always")
    undo_of(tried)

    assert tried.approval == "always"
    assert tried.compensate is nothing
    assert tried.parse(STORED) == STORED
