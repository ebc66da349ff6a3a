"""The whole table of what a leg does next. A position is made from journaled outputs alone."""

import itertools
from dataclasses import replace

import pytest

from app.domain.next_action import (
    TURNS_PER_LEG,
    Action,
    CallModel,
    Compensate,
    Fail,
    Finish,
    HandOff,
    Park,
    RunCalls,
    next_action,
)
from app.domain.position import Failure, Phase, Position

TODO, IN_DOUBT, HELD, DONE = Phase.TODO, Phase.IN_DOUBT, Phase.HELD, Phase.DONE
BROKE = Failure("limit_turns", "Used up.")


def turn(stop_reason: str, *calls: Phase) -> Position:
    return Position(turn=4, stop_reason=stop_reason, calls=calls)


TOOLS = turn("tool_use", DONE, DONE)
END = turn("end_turn")
PAUSE = turn("pause_turn")

# What a leg does after a turn with nothing left to run: for each stop reason, and what has come in.
AFTER_A_TURN: list[tuple[str, Position, Action | str]] = [
    ("the first turn", Position(), CallModel(1)),
    ("tools have answered", TOOLS, CallModel(5)),
    ("tools have answered, somebody spoke", replace(TOOLS, messages=True), CallModel(5)),
    ("the model paused", PAUSE, CallModel(5)),
    ("the model paused, somebody spoke", replace(PAUSE, messages=True), CallModel(5)),
    ("the model is done", END, Finish("succeeded")),
    ("the model is done, somebody spoke", replace(END, messages=True), CallModel(5)),
    ("a stop sequence", turn("stop_sequence"), Finish("succeeded")),
    (
        "a stop sequence, somebody spoke",
        replace(turn("stop_sequence"), messages=True),
        CallModel(5),
    ),
    ("a final tool", replace(TOOLS, final=True), Finish("succeeded")),
    ("a final tool, somebody spoke", replace(TOOLS, final=True, messages=True), CallModel(5)),
    ("stopped for a tool that is not there", turn("tool_use"), "model_error"),
    ("cut off", turn("max_tokens"), "max_tokens"),
    ("cut off, somebody spoke", replace(turn("max_tokens"), messages=True), "max_tokens"),
    ("refused", turn("refusal"), "model_refusal"),
    ("too long", turn("model_context_window_exceeded"), "context_window"),
    ("a reason of tomorrow", turn("tomorrow"), "unknown_stop_reason"),
]


@pytest.mark.parametrize(
    ("at", "expected"), [row[1:] for row in AFTER_A_TURN], ids=[row[0] for row in AFTER_A_TURN]
)
def test_after_a_turn(at: Position, expected: Action | str) -> None:
    action = next_action(at)

    if isinstance(expected, str):
        assert isinstance(action, Fail)
        assert action.failure.reason == expected
    else:
        assert action == expected


def test_an_unknown_stop_reason_is_named() -> None:
    action = next_action(turn("tomorrow"))

    assert isinstance(action, Fail)
    assert "'tomorrow'" in action.failure.detail


@pytest.mark.parametrize("final", [False, True])
@pytest.mark.parametrize("calls", list(itertools.product(Phase, repeat=2)))
def test_calls_of_a_turn(calls: tuple[Phase, ...], final: bool) -> None:
    """What can run runs first; then what is held is waited for; only then the turn is over."""
    action = next_action(replace(turn("tool_use", *calls), final=final))

    due = tuple(index for index, phase in enumerate(calls) if phase in (TODO, IN_DOUBT))
    if due:
        assert action == RunCalls(4, due)
    elif HELD in calls:
        assert action == Park()
    else:
        assert action == (Finish("succeeded") if final else CallModel(5))


@pytest.mark.parametrize("calls", list(itertools.product(Phase, repeat=2)))
def test_calls_of_a_cancelled_turn(calls: tuple[Phase, ...]) -> None:
    """What has begun is settled; nothing new begins, and nobody is waited for."""
    action = next_action(replace(turn("tool_use", *calls), cancelling=True))

    begun = tuple(index for index, phase in enumerate(calls) if phase is IN_DOUBT)
    assert action == (RunCalls(4, begun) if begun else Finish("cancelled"))


# A run that is being cancelled and has no call left to settle.
WINDING_UP: list[tuple[str, dict[str, object], Action]] = [
    ("nothing is left", {}, Finish("cancelled")),
    ("a child lives", {"children": True}, Park()),
    ("an undo waits for its next attempt", {"compensation": HELD}, Park()),
    (
        "a child lives, something is to be undone",
        {"children": True, "compensation": TODO},
        Park(),
    ),
    ("a child lives, an undo waits", {"children": True, "compensation": HELD}, Park()),
]


@pytest.mark.parametrize(
    ("draining", "expected"), [(False, Compensate()), (True, HandOff("drain"))]
)
def test_an_undo_is_left_to_another_worker_by_one_that_leaves(
    draining: bool, expected: Action
) -> None:
    at = turn("tool_use", DONE)
    at = replace(at, cancelling=True, compensation=TODO, draining=draining)
    assert next_action(at) == expected


@pytest.mark.parametrize("draining", [False, True])
@pytest.mark.parametrize(
    ("at", "expected"), [row[1:] for row in WINDING_UP], ids=[row[0] for row in WINDING_UP]
)
def test_winding_up(at: dict[str, object], expected: Action, draining: bool) -> None:
    """Neither messages, nor questions, nor a deploy, nor the length of the leg change it."""
    busy = {"messages": True, "backing_off": True, "turns_in_leg": TURNS_PER_LEG, "final": True}
    cancelled = replace(TOOLS, cancelling=True, draining=draining, calls=(DONE, HELD, TODO))

    assert next_action(replace(cancelled, **at)) == expected  # type: ignore[arg-type]
    assert next_action(replace(cancelled, **busy, **at)) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize("at", [row[1] for row in WINDING_UP], ids=[row[0] for row in WINDING_UP])
def test_what_has_begun_is_settled_before_anything_is_waited_for_or_undone(
    at: dict[str, object],
) -> None:
    cancelled = replace(turn("tool_use", DONE, IN_DOUBT), cancelling=True)

    assert next_action(replace(cancelled, **at)) == RunCalls(4, (1,))  # type: ignore[arg-type]


def test_nothing_is_undone_and_no_child_waited_for_unless_the_run_is_being_cancelled() -> None:
    at = replace(TOOLS, children=True, compensation=TODO)

    assert next_action(at) == CallModel(5)
    assert next_action(replace(END, children=True)) == Finish("succeeded")


@pytest.mark.parametrize(
    ("calls", "indexes"),
    [((TODO,) * 3, (0, 1, 2)), ((DONE, TODO, HELD), (1,)), ((TODO, HELD, IN_DOUBT), (0, 2))],
)
def test_calls_run_in_the_order_of_their_index(
    calls: tuple[Phase, ...], indexes: tuple[int, ...]
) -> None:
    assert next_action(turn("tool_use", *calls)) == RunCalls(4, indexes)


# From the strongest to the weakest: each row wins over all rows below it.
PRECEDENCE: list[tuple[str, dict[str, object], Action]] = [
    ("failure", {"failure": BROKE}, Fail(BROKE)),
    ("cancel", {"cancelling": True}, Finish("cancelled")),
    ("back-off", {"backing_off": True}, Park()),
    ("final", {"stop_reason": "tool_use", "calls": (DONE,), "final": True}, Finish("succeeded")),
    ("drain", {"draining": True}, HandOff("drain")),
    ("a long leg", {"turns_in_leg": TURNS_PER_LEG}, HandOff("long leg")),
]


@pytest.mark.parametrize(
    ("stronger", "weaker"),
    [
        pytest.param(one, other, id=f"{one[0]} over {other[0]}")
        for one, other in itertools.combinations(PRECEDENCE, 2)
    ],
)
def test_precedence(
    stronger: tuple[str, dict[str, object], Action], weaker: tuple[str, dict[str, object], Action]
) -> None:
    going_on = Position(turn=4, stop_reason="pause_turn")

    at = replace(going_on, **{**weaker[1], **stronger[1]})  # type: ignore[arg-type]

    assert next_action(replace(going_on, **weaker[1])) == weaker[2]  # type: ignore[arg-type]
    assert next_action(at) == stronger[2]


@pytest.mark.parametrize("stop_reason", [None, "tool_use", "end_turn", "max_tokens", "tomorrow"])
@pytest.mark.parametrize("calls", [(), (TODO,), (IN_DOUBT,), (HELD,)])
def test_a_failure_ends_the_run_wherever_it_stands(
    stop_reason: str | None, calls: tuple[Phase, ...]
) -> None:
    at = Position(turn=4, stop_reason=stop_reason, calls=calls, failure=BROKE, cancelling=True)

    assert next_action(at) == Fail(BROKE)


@pytest.mark.parametrize("draining", [False, True])
def test_a_leg_is_handed_over_only_at_a_turns_border(draining: bool) -> None:
    at = replace(turn("tool_use", TODO, HELD), draining=draining, turns_in_leg=TURNS_PER_LEG)

    assert next_action(at) == RunCalls(4, (0,))
    assert next_action(replace(at, calls=(DONE, HELD))) == Park()
    assert isinstance(next_action(replace(at, calls=(DONE, DONE))), HandOff)


@pytest.mark.parametrize("at", [END, replace(TOOLS, final=True), turn("max_tokens")])
def test_a_run_that_is_over_is_not_handed_over(at: Position) -> None:
    busy = replace(at, draining=True, turns_in_leg=TURNS_PER_LEG)

    assert isinstance(next_action(busy), Finish | Fail)


def test_a_message_at_the_end_is_handed_over_with_the_run() -> None:
    assert next_action(replace(END, messages=True, draining=True)) == HandOff("drain")


@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        (TURNS_PER_LEG - 1, CallModel(5)),
        (TURNS_PER_LEG, HandOff("long leg")),
        (TURNS_PER_LEG + 1, HandOff("long leg")),
    ],
)
def test_a_leg_has_so_many_turns(turns: int, expected: Action) -> None:
    assert next_action(replace(TOOLS, turns_in_leg=turns)) == expected
