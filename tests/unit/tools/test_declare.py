"""What `@tool` makes of a function."""

from datetime import timedelta
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from app import ToolContext, tool
from app import ToolContext as Ctx
from app.tools.declare import Tool
from tests.unit.tools.contexts import make_context


class Receipt(BaseModel):
    number: int


def always(ctx: ToolContext, args: dict[str, Any]) -> bool:
    return True


@tool
async def find(ctx: ToolContext, order: str, limit: int = 3) -> str:
    """Find an order
    by its number.

    This part is for people.
    """
    return f"{order} of {ctx.run_id}"


@tool(
    replay="idempotent",
    approval=always,
    compensate=always,
    expires=timedelta(days=2),
    timeout=None,
    attempts=5,
    result=Receipt,
    final=True,
)
def pay(cents: Annotated[int, Field(gt=0, description="In cents")]) -> Receipt:
    return Receipt(number=cents)


def test_a_bare_tool_makes_the_careful_promises() -> None:
    assert (find.replay, find.approval, find.on_unknown) == ("at_most_once", "never", "tell_model")
    assert (find.timeout, find.attempts, find.expires) == (60.0, 3, None)
    assert (find.external, find.final, find.is_async, find.takes_context) == (
        False,
        False,
        True,
        True,
    )


def test_options_are_kept() -> None:
    assert (pay.replay, pay.timeout, pay.attempts, pay.final) == ("idempotent", None, 5, True)
    assert (pay.approval, pay.compensate, pay.reconcile) == (always, always, None)
    assert (pay.result_model, pay.is_async, pay.takes_context) == (Receipt, False, False)


def test_a_person_is_asked_about_unknown_outcomes_of_tools_with_approval() -> None:
    assert pay.on_unknown == "ask"
    assert tool(approval="always", on_unknown="tell_model")(always_free).on_unknown == "tell_model"


async def always_free() -> None:
    """Take nothing."""


def test_the_first_paragraph_is_the_description() -> None:
    assert find.description == "Find an order by its number."
    assert pay.description == ""


def test_name_and_description_can_be_given() -> None:
    given = tool(name="look-up", description="Look it up.")(always_free)
    assert (given.name, given.description) == ("look-up", "Look it up.")


async def test_a_tool_can_be_called_like_its_function() -> None:
    assert await find(make_context(), "7") == "7 of run_1"
    assert pay(5) == Receipt(number=5)


def test_the_schema_shows_parameters_and_not_the_context() -> None:
    assert find.input_schema == {
        "type": "object",
        "properties": {
            "order": {"type": "string"},
            "limit": {"type": "integer", "default": 3},
        },
        "required": ["order"],
        "additionalProperties": False,
    }


def test_the_schema_shows_descriptions_and_bounds() -> None:
    assert pay.input_schema["properties"] == {
        "cents": {"type": "integer", "exclusiveMinimum": 0, "description": "In cents"}
    }


def test_a_tool_without_parameters_takes_an_empty_object() -> None:
    assert tool(always_free).input_schema == {
        "type": "object",
        "properties": {},
        "additionalProperties": False,
    }


def test_parameters_may_be_named_like_anything() -> None:
    @tool
    async def odd(json: str, schema: int, copy: bool, model_config: str, _x: int) -> None: ...

    given = {"json": "a", "schema": 1, "copy": True, "model_config": "b", "_x": 2}
    assert list(odd.input_schema["properties"]) == list(given)
    assert odd.parse(given) == given


def test_local_types_can_be_named_in_strings() -> None:
    class Line(BaseModel):
        sku: str

    @tool
    async def order(lines: "list[Line]") -> None: ...

    assert order.parse({"lines": [{"sku": "a"}]}) == {"lines": [{"sku": "a"}]}


def contexts() -> list[Tool]:
    async def first(ctx: Any, order: str) -> None: ...  # noqa: ANN401
    async def bare(ctx, order: str) -> None: ...  # type: ignore[no-untyped-def]  # noqa: ANN001
    async def last(order: str, context: ToolContext) -> None: ...
    async def keyword(*, order: str, context: "ToolContext") -> None: ...
    async def renamed(context: "Ctx", order: str) -> None: ...
    async def optional(order: str, context: ToolContext | None = None) -> None: ...
    async def unresolved(c: "app.ToolContext", order: str) -> None: ...  # type: ignore # noqa: F821

    return [tool(f) for f in (first, bare, last, keyword, renamed, optional, unresolved)]


@pytest.mark.parametrize("declared", contexts(), ids=lambda declared: declared.name)
async def test_the_context_is_recognised(declared: Tool) -> None:
    assert declared.takes_context
    assert list(declared.input_schema["properties"]) == ["order"]
    await declared.invoke(make_context(), {"order": "1"})


def test_the_definition_is_json_without_code() -> None:
    assert pay.definition() == {
        "name": "pay",
        "description": "",
        "input_schema": pay.input_schema,
        "replay": "idempotent",
        "approval": "callable",
        "has": {"reconcile": False, "compensate": True, "precondition": False, "before": False},
        "on_unknown": "ask",
        "timeout": None,
        "attempts": 5,
        "expires": 172800.0,
        "external": False,
        "result_schema": {
            "type": "object",
            "properties": {"number": {"type": "integer"}},
            "required": ["number"],
        },
        "final": True,
    }


def test_a_definition_is_a_copy() -> None:
    find.definition()["input_schema"]["properties"].clear()
    assert find.input_schema["properties"]
