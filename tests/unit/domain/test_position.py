"""Where a leg stands: folds of journaled outputs, and of nothing else."""

from dataclasses import replace
from typing import Any

import pytest

from app.domain.position import Failure, Phase, Position, phase_of

CALL_STATES = {
    "proposed": Phase.TODO,
    "waiting": Phase.TODO,
    "ready": Phase.TODO,
    "started": Phase.IN_DOUBT,
    "succeeded": Phase.DONE,
    "failed": Phase.DONE,
    "outcome_unknown": Phase.DONE,
    "denied": Phase.DONE,
    "expired": Phase.DONE,
    "cancelled": Phase.DONE,
}


def looked(**found: Any) -> dict[str, Any]:
    return {
        "turn": 2,
        "stop_reason": "tool_use",
        "calls": ["done", "todo"],
        "final": False,
        "backing_off": False,
        "messages": False,
        "cancelling": False,
        "draining": False,
    } | found


def answered(**found: Any) -> dict[str, Any]:
    return {
        "turn": 3,
        "outcome": "answered",
        "stop_reason": "tool_use",
        "calls": 2,
        "draining": False,
    } | found


def called(index: int, **found: Any) -> dict[str, Any]:
    return {
        "turn": 2,
        "index": index,
        "phase": "done",
        "final": False,
        "cancelling": False,
        "draining": False,
    } | found


@pytest.mark.parametrize(("state", "phase"), CALL_STATES.items())
def test_a_call_without_an_open_wait_is_judged_by_its_state(state: str, phase: Phase) -> None:
    assert phase_of(state, held=False) is phase


@pytest.mark.parametrize("state", CALL_STATES)
def test_a_call_with_an_open_wait_is_held_whatever_its_state(state: str) -> None:
    assert phase_of(state, held=True) is Phase.HELD


def test_a_position_is_read_as_the_step_found_it() -> None:
    said = dict.fromkeys(("messages", "cancelling", "draining", "backing_off"), True)

    at = Position.read(looked(**said))

    assert at == Position(
        turn=2,
        stop_reason="tool_use",
        calls=(Phase.DONE, Phase.TODO),
        messages=True,
        cancelling=True,
        draining=True,
        backing_off=True,
    )


@pytest.mark.parametrize(
    ("compensation", "phase"), [("todo", Phase.TODO), ("held", Phase.HELD), (None, None)]
)
def test_children_and_what_is_to_be_undone_are_read(
    compensation: str | None, phase: Phase | None
) -> None:
    at = Position.read(looked(children=True, compensation=compensation))

    assert (at.children, at.compensation) == (True, phase)


def test_an_output_from_before_children_and_undoing_is_read_as_without_them() -> None:
    assert not {"children", "compensation"} & looked().keys()

    at = Position.read(looked(cancelling=True))

    assert (at.children, at.compensation) == (False, None)


def test_a_later_look_forgets_children_and_undos_that_are_over() -> None:
    at = Position(turn=2, children=True, compensation=Phase.TODO, cancelling=True)

    after = at.after_look(looked(cancelling=True, children=False, compensation=None))

    assert (after.children, after.compensation, after.cancelling) == (False, None, True)


def test_an_unknown_phase_of_undoing_is_an_error_at_once() -> None:
    with pytest.raises(ValueError, match="paused"):
        Position.read(looked(compensation="paused"))


def test_the_first_position_of_a_run_has_no_turn() -> None:
    assert Position.read(looked(turn=0, stop_reason=None, calls=[])) == Position()


@pytest.mark.parametrize("name", looked())
def test_an_output_that_lacks_a_part_is_an_error_at_once(name: str) -> None:
    output = looked()
    del output[name]

    with pytest.raises(KeyError, match=name):
        Position.read(output)


def test_an_unknown_phase_is_an_error_at_once() -> None:
    with pytest.raises(ValueError, match="paused"):
        Position.read(looked(calls=["paused"]))


def test_an_answer_opens_a_turn_with_its_calls_to_do() -> None:
    at = Position(turn=2, messages=True, turns_in_leg=1).after_model(answered(draining=True))

    assert at == Position(
        turn=3,
        stop_reason="tool_use",
        calls=(Phase.TODO, Phase.TODO),
        draining=True,
        turns_in_leg=2,
    )


def test_an_answer_forgets_that_an_earlier_turn_was_final() -> None:
    assert not Position(turn=2, final=True).after_model(answered()).final


def test_backing_off_keeps_the_turn() -> None:
    at = Position(turn=2, stop_reason="tool_use", calls=(Phase.DONE,))

    after = at.after_model({"turn": 3, "outcome": "backing_off", "draining": True})

    assert after == replace(at, backing_off=True, draining=True)


def test_a_cancel_met_by_the_model_step_is_remembered() -> None:
    assert Position().after_model({"turn": 1, "outcome": "cancel"}) == Position(cancelling=True)


def test_a_failure_is_kept_with_its_reason() -> None:
    output = {"turn": 1, "outcome": "failed", "reason": "limit_turns", "detail": "Used up."}

    assert Position().after_model(output) == Position(failure=Failure("limit_turns", "Used up."))


def test_a_model_step_of_unknown_outcome_is_an_error_at_once() -> None:
    with pytest.raises(ValueError, match="slept"):
        Position().after_model({"turn": 1, "outcome": "slept"})


def test_outputs_of_calls_land_at_their_index_whatever_their_order() -> None:
    at = Position(turn=2, stop_reason="tool_use", calls=(Phase.DONE, Phase.TODO, Phase.TODO))

    after = at.after_calls([called(2, phase="held"), called(1, phase="done")])

    assert after.calls == (Phase.DONE, Phase.DONE, Phase.HELD)


def test_an_output_beyond_the_turns_calls_is_an_error_at_once() -> None:
    with pytest.raises(IndexError):
        Position(turn=2, calls=(Phase.TODO,)).after_calls([called(1)])


@pytest.mark.parametrize("name", ["final", "cancelling", "draining"])
def test_what_any_call_met_holds_for_the_leg(name: str) -> None:
    at = Position(turn=2, calls=(Phase.TODO, Phase.TODO))

    assert getattr(at.after_calls([called(0), called(1, **{name: True})]), name)
    assert not getattr(at.after_calls([called(0), called(1)]), name)


@pytest.mark.parametrize(("name", "stays"), [("final", True), ("cancelling", True)])
def test_a_later_call_does_not_take_it_back(name: str, stays: bool) -> None:
    at = replace(Position(turn=2, calls=(Phase.TODO,)), **{name: True})  # type: ignore[arg-type]

    assert getattr(at.after_calls([called(0)]), name) is stays


def test_a_second_look_keeps_only_the_length_of_the_leg() -> None:
    at = Position(turn=2, failure=Failure("internal", "x"), turns_in_leg=7, cancelling=True)

    assert at.after_look(looked()) == replace(Position.read(looked()), turns_in_leg=7)


def test_folding_changes_no_earlier_position() -> None:
    at = Position(turn=2, stop_reason="tool_use", calls=(Phase.TODO,))

    at.after_calls([called(0)])
    at.after_model(answered())

    assert at == Position(turn=2, stop_reason="tool_use", calls=(Phase.TODO,))
