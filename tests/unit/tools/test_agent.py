"""Agents: what is refused, whose approval rule holds, what makes a version."""

import inspect
from typing import Any

import pytest
from pydantic import BaseModel

from app import Agent, Limits, ToolContext, tool
from app.domain.canonical import encode
from app.tools.errors import AgentDefinitionError
from tests.unit.tools.contexts import make_context


def over_ten(ctx: ToolContext, args: dict[str, Any]) -> bool:
    return bool(args["cents"] > 10)


@tool(replay="read_only")
async def find(order: str) -> str:
    """Find an order."""
    return order


@tool(approval=over_ten)
async def pay(cents: int) -> None:
    """Pay."""


@tool(name="find")
async def find_again(order: str) -> None:
    """Another tool of the same name."""


class Report(BaseModel):
    text: str


def make(**given: Any) -> Agent:
    fields: dict[str, Any] = {"name": "desk", "model": "claude-sonnet-5", "tools": [find, pay]}
    return Agent(**fields | given)


async def undecorated(order: str) -> None:
    """Not a tool."""


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"name": "the desk"}, "the name must be 1 to 64"),
        ({"name": ""}, "the name must be 1 to 64"),
        ({"model": " "}, "model is empty"),
        ({"instructions": None}, "instructions must be text, not NoneType"),
        ({"limits": {"turns": 3}}, "limits must be Limits(...)"),
        ({"max_tokens": 0}, "max_tokens is 0; use a whole number"),
        ({"max_tokens": True}, "max_tokens is True; use a whole number"),
        ({"on_denial": "panic"}, "on_denial is 'panic'; use 'tell_model' or 'compensate'"),
        ({"tools": [undecorated]}, "tools[0] (undecorated) is not a tool; decorate it with @tool"),
        ({"approvals": {"pya": "always"}}, "names 'pya', which is none of its tools (find, pay)"),
        ({"approvals": {"pay": "maybe"}}, "approvals['pay'] is 'maybe'; use 'never' or 'always'"),
        ({"thinking": {"budget": object()}}, "thinking must be a dict of plain JSON"),
        ({"thinking": "a lot"}, "thinking must be a dict of plain JSON"),
        ({"output": dict}, "output is <class 'dict'>; use a pydantic model class"),
    ],
)  # fmt: skip
def test_an_agent_that_makes_no_sense(wrong: dict[str, Any], reason: str) -> None:
    with pytest.raises(AgentDefinitionError) as refused:
        make(**wrong)
    assert reason in str(refused.value)


def test_the_text_names_agent_file_and_line() -> None:
    frame = inspect.currentframe()
    assert frame is not None
    with pytest.raises(AgentDefinitionError) as refused:
        Agent(name="desk", model="")
    assert str(refused.value).startswith(f"{__file__}:{frame.f_lineno - 1}: agent 'desk': ")


def test_two_tools_of_one_name_are_both_named() -> None:
    with pytest.raises(AgentDefinitionError) as refused:
        make(tools=[find, pay, find_again])
    assert f"two tools are named 'find': {find.source} and {find_again.source}" in str(
        refused.value
    )


def test_the_stricter_approval_rule_holds() -> None:
    assert make().approval_for(pay) is over_ten
    assert make(approvals={"pay": "never"}).approval_for(pay) is over_ten
    assert make(approvals={"pay": "always"}).approval_for(pay) == "always"
    assert make().approval_for(find) == "never"
    assert make(approvals={"find": "always"}).approval_for(find) == "always"


@pytest.mark.parametrize(
    ("rule", "cents", "asked"),
    [("never", 5, False), ("never", 50, True), ("always", 5, True), ("always", 50, True)],
)
async def test_whether_a_call_needs_approval(rule: str, cents: int, asked: bool) -> None:
    agent = make(approvals={"pay": rule})
    assert await agent.needs_approval(pay, make_context(), {"cents": cents}) is asked


def test_tools_are_found_by_name() -> None:
    assert make().tool("pay") is pay
    assert make().tool("nothing") is None


def test_a_definition_is_json() -> None:
    agent = make(output=Report, thinking={"type": "adaptive"}, approvals={"find": "always"})
    definition = agent.definition()
    encode(definition)
    assert [defined["name"] for defined in definition["tools"]] == ["find", "pay"]
    assert definition["output_schema"]["properties"] == {"text": {"type": "string"}}
    assert definition["limits"] == Limits().to_json()


def test_a_version_is_twelve_hex_digits_and_the_same_for_equal_definitions() -> None:
    assert make().version == make().version
    assert len(make().version) == 12
    int(make().version, 16)


@pytest.mark.parametrize(
    "changed",
    [
        {"name": "other"},
        {"model": "claude-opus-5"},
        {"instructions": "Be kind."},
        {"max_tokens": 100},
        {"thinking": {"type": "adaptive"}},
        {"limits": Limits(turns=3)},
        {"tools": [find]},
        {"tools": [pay, find]},
        {"output": Report},
        {"on_denial": "compensate"},
        {"approvals": {"pay": "always"}},
    ],
)
def test_what_changes_behaviour_changes_the_version(changed: dict[str, Any]) -> None:
    assert make(**changed).version != make().version


def test_the_place_of_a_declaration_does_not_change_the_version() -> None:
    first = make()
    second = make()
    third = Agent(name="desk", model="claude-sonnet-5", tools=[find, pay])
    assert first.version == second.version == third.version
    assert first.source != third.source


def test_an_agent_keeps_its_own_tools_and_rules() -> None:
    tools, approvals = [find, pay], {"pay": "always"}
    agent = make(tools=tools, approvals=approvals)
    tools.clear()
    approvals.clear()
    assert agent.tools == (find, pay)
    assert agent.approval_for(pay) == "always"
