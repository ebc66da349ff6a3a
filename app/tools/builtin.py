"""Tools that come with Perdure. A call of one runs nothing: the run waits, and holds nothing."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Annotated, NoReturn

from pydantic import AfterValidator, AwareDatetime, Field

from app.tools.context import ToolContext
from app.tools.declare import Tool, Waits, tool

LONGEST_SLEEP = 366 * 86_400


def _waits(kind: Waits) -> Callable[[Tool], Tool]:
    return lambda declared: replace(declared, waits=kind)


def _bound(at: datetime) -> datetime:
    """What every clock and calendar on the way can hold."""
    if not 1970 <= at.year <= 9000:
        raise ValueError("must be a year from 1970 to 9000")
    return at


@_waits("input")
@tool(replay="read_only", timeout=None)
def ask_user(question: Annotated[str, Field(min_length=1, max_length=10_000)]) -> str:
    """Ask the person who gave you this task a question, and wait for the answer."""
    _only_in_a_run()


@_waits("timer")
@tool(replay="read_only", timeout=None)
def sleep_for(seconds: Annotated[float, Field(ge=0, le=LONGEST_SLEEP)]) -> dict[str, str]:
    """Do nothing for a number of seconds."""
    _only_in_a_run()


@_waits("timer")
@tool(replay="read_only", timeout=None)
def sleep_until(at: Annotated[AwareDatetime, AfterValidator(_bound)]) -> dict[str, str]:
    """Do nothing until a moment, given with its time zone, such as 2030-01-31T12:00:00Z."""
    _only_in_a_run()


# The child is made in the commit that records the call, so it is made once.
@_waits("child")
@tool(replay="transactional", timeout=None)
def delegate(
    ctx: ToolContext,
    agent: Annotated[str, Field(min_length=1, max_length=64)],
    input: Annotated[str, Field(min_length=1)],
) -> dict[str, str]:
    """Give a task to another agent, by its name, and wait for what it comes to."""
    _only_in_a_run()


def _only_in_a_run() -> NoReturn:
    raise RuntimeError("this tool waits for somebody or something; it works only in a run")
