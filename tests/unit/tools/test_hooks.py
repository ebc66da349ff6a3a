"""Hooks: sync or async, with arguments of their own, held to their contract."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from app import CannotTell, DidNotHappen, Happened, ToolContext, tool
from app.tools.declare import Tool
from app.tools.errors import InvalidArguments, ToolHookError
from tests.unit.tools.contexts import make_context

ARGS = {"cents": 5}


def make(**hooks: Any) -> Tool:
    @tool(**hooks)
    async def pay(ctx: ToolContext, cents: int, note: str = "") -> None: ...

    return pay


def answering(value: object) -> list[Callable[..., Any]]:
    def sync_hook(ctx: ToolContext, args: dict[str, Any]) -> object:
        return value

    async def async_hook(ctx: ToolContext, args: dict[str, Any]) -> object:
        return value

    return [sync_hook, async_hook]


@pytest.mark.parametrize(("rule", "asked"), [("never", False), ("always", True)])
async def test_a_fixed_rule_answers_for_itself(rule: str, asked: bool) -> None:
    assert await make(approval=rule).needs_approval(make_context(), ARGS) is asked


@pytest.mark.parametrize("answer", [True, False])
async def test_a_rule_may_be_computed(answer: bool) -> None:
    for hook in answering(answer):
        assert await make(approval=hook).needs_approval(make_context(), ARGS) is answer


@pytest.mark.parametrize("answer", [None, 0, "no"])
async def test_a_rule_that_gives_no_bool_is_no_permission(answer: object) -> None:
    for hook in answering(answer):
        with pytest.raises(ToolHookError, match=r"pay: approval returned \w+, not bool"):
            await make(approval=hook).needs_approval(make_context(), ARGS)


async def test_before_may_change_the_arguments() -> None:
    for hook in answering({"cents": "7"}):
        changed = await make(before=hook).run_before(make_context(), ARGS)
        assert changed == {"cents": 7, "note": ""}


async def test_without_before_the_arguments_stay() -> None:
    assert await make().run_before(make_context(), ARGS) == ARGS


async def test_what_before_returns_is_validated() -> None:
    for hook in answering({"cents": "many"}):
        with pytest.raises(InvalidArguments, match="cents: "):
            await make(before=hook).run_before(make_context(), ARGS)


async def test_before_must_return_arguments() -> None:
    for hook in answering(None):
        with pytest.raises(ToolHookError, match="before returned NoneType, not arguments"):
            await make(before=hook).run_before(make_context(), ARGS)


async def test_a_hook_cannot_change_the_stored_arguments_in_place() -> None:
    stored = {"cents": 5, "lines": [1]}

    def spoil(ctx: ToolContext, args: dict[str, Any]) -> bool:
        args["lines"].append(2)
        args["cents"] = 9
        return False

    await make(approval=spoil).needs_approval(make_context(), stored)
    assert stored == {"cents": 5, "lines": [1]}


@pytest.mark.parametrize("verdict", [Happened({"id": 1}), DidNotHappen(), CannotTell()])
async def test_reconcile_gives_one_of_three_verdicts(verdict: object) -> None:
    for hook in answering(verdict):
        assert await make(reconcile=hook).ask_reconcile(make_context(), ARGS) == verdict


async def test_without_reconcile_nobody_can_tell() -> None:
    assert await make().ask_reconcile(make_context(), ARGS) == CannotTell()


@pytest.mark.parametrize("answer", [None, True, {"id": 1}, DidNotHappen])
async def test_anything_else_is_no_verdict(answer: object) -> None:
    for hook in answering(answer):
        with pytest.raises(ToolHookError, match="pay: reconcile returned"):
            await make(reconcile=hook).ask_reconcile(make_context(), ARGS)


async def test_a_precondition_is_read_as_json_without_secrets() -> None:
    ctx = make_context(secrets=lambda name: "hunter2!")

    def read(ctx: ToolContext, args: dict[str, Any]) -> object:
        return {"seen": (1, f"by {ctx.secret('PASSWORD')}"), "args": args}

    declared = make(precondition=read)
    assert await declared.read_precondition(ctx, ARGS) == {
        "seen": [1, "by [secret PASSWORD]"],
        "args": ARGS,
    }
    assert await make().read_precondition(ctx, ARGS) is None


async def test_sync_hooks_do_not_block_the_loop() -> None:
    seen = []

    def look(ctx: ToolContext, args: dict[str, Any]) -> bool:
        seen.append(threading.get_ident())
        return True

    await make(approval=look).needs_approval(make_context(), ARGS)
    assert seen
    assert seen != [threading.get_ident()]


async def test_the_exception_of_a_hook_arrives() -> None:
    def fail(ctx: ToolContext, args: dict[str, Any]) -> bool:
        raise ConnectionError("bank is away")

    with pytest.raises(ConnectionError, match="bank is away"):
        await make(reconcile=fail).ask_reconcile(make_context(), ARGS)
