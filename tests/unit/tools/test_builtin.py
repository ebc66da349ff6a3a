"""The tools that come with Perdure: what the model may ask of them, and that nothing runs here."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from app import ask_user, delegate, sleep_for, sleep_until, tool
from app.tools.builtin import LONGEST_SLEEP
from app.tools.declare import Tool
from app.tools.errors import InvalidArguments
from tests.unit.tools.contexts import make_context

WAITS = [(ask_user, "input"), (sleep_for, "timer"), (sleep_until, "timer"), (delegate, "child")]

ARGUMENTS: dict[str, dict[str, Any]] = {
    "ask_user": {"question": "Which colour?"},
    "sleep_for": {"seconds": 1.5},
    "sleep_until": {"at": "2030-01-31T12:00:00Z"},
    "delegate": {"agent": "desk", "input": "do it"},
}


@pytest.mark.parametrize(("declared", "waits"), WAITS)
def test_each_waits_for_its_own_kind_of_answer(declared: Tool, waits: str) -> None:
    assert declared.waits == waits
    assert declared.timeout is None
    assert declared.approval == "never"
    assert not declared.external


def test_a_tool_that_runs_waits_for_nothing() -> None:
    @tool
    def run() -> None: ...

    @tool(external=True)
    def elsewhere() -> None: ...

    assert run.waits is None
    assert elsewhere.waits == "external"


@pytest.mark.parametrize("declared", [each for each, _ in WAITS])
def test_the_model_is_told_what_to_fill_in(declared: Tool) -> None:
    schema = declared.input_schema

    assert schema["required"] == list(schema["properties"]) == list(ARGUMENTS[declared.name])
    assert declared.description.endswith((".", "Z"))


@pytest.mark.parametrize("declared", [each for each, _ in WAITS])
def test_stored_arguments_stay_as_they_are(declared: Tool) -> None:
    stored = declared.parse(ARGUMENTS[declared.name])

    assert declared.parse(stored) == stored


def test_the_context_of_a_child_is_not_the_models_to_fill_in() -> None:
    assert delegate.takes_context
    assert set(delegate.input_schema["properties"]) == {"agent", "input"}


BAD: list[tuple[Tool, dict[str, Any]]] = [
    (ask_user, {"question": ""}),
    (ask_user, {"question": "x" * 10_001}),
    (ask_user, {}),
    (sleep_for, {"seconds": -1}),
    (sleep_for, {"seconds": LONGEST_SLEEP + 1}),
    (sleep_for, {"seconds": float("nan")}),
    (sleep_for, {"seconds": float("inf")}),
    (sleep_for, {"seconds": "soon"}),
    (sleep_until, {"at": "tomorrow"}),
    (sleep_until, {"at": "2030-01-31T12:00:00"}),
    (delegate, {"agent": "", "input": "x"}),
    (delegate, {"agent": "a" * 65, "input": "x"}),
    (delegate, {"agent": "desk", "input": ""}),
    (delegate, {"agent": "desk", "input": "x", "session": "s"}),
]


@pytest.mark.parametrize(("declared", "arguments"), BAD)
def test_what_cannot_be_waited_for_is_refused(declared: Tool, arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidArguments):
        declared.parse(arguments)


@pytest.mark.parametrize("at", ["2030-01-31T12:00:00+02:00", "2030-01-31T10:00:00Z", "1893664800"])
def test_a_moment_is_stored_with_its_time_zone(at: str) -> None:
    stored = sleep_until.parse({"at": at})["at"]

    moment = datetime.fromisoformat(stored)
    assert moment.utcoffset() is not None


def test_the_same_moment_stays_the_same() -> None:
    stored = sleep_until.parse({"at": "2030-01-31T12:00:00+02:00"})["at"]

    read = datetime.fromisoformat(stored)
    assert read - datetime.fromisoformat("2030-01-31T10:00:00+00:00") == timedelta(0)


@pytest.mark.parametrize("seconds", [0, LONGEST_SLEEP])
def test_the_bounds_of_a_sleep_are_allowed(seconds: float) -> None:
    assert sleep_for.parse({"seconds": seconds}) == {"seconds": seconds}


@pytest.mark.parametrize("declared", [each for each, _ in WAITS])
async def test_outside_a_run_each_says_that_it_works_only_there(declared: Tool) -> None:
    with pytest.raises(RuntimeError, match="only in a run"):
        await declared.invoke(make_context(), ARGUMENTS[declared.name])


def test_a_child_is_recorded_in_the_commit_that_makes_it() -> None:
    """So it can be asked for again, and is made once."""
    assert delegate.replay == "transactional"
    assert {each.replay for each, _ in WAITS if each is not delegate} == {"read_only"}
