"""What a leg does next: a pure function of its position."""

from dataclasses import dataclass

from app.domain.position import Failure, Phase, Position

TURNS_PER_LEG = 50


@dataclass(frozen=True)
class CallModel:
    turn: int


@dataclass(frozen=True)
class RunCalls:
    turn: int
    indexes: tuple[int, ...]


@dataclass(frozen=True)
class Park:
    pass


@dataclass(frozen=True)
class Compensate:
    pass


@dataclass(frozen=True)
class HandOff:
    why: str


@dataclass(frozen=True)
class Finish:
    status: str


@dataclass(frozen=True)
class Fail:
    failure: Failure


Border = Park | Compensate | HandOff | Finish | Fail
Action = CallModel | RunCalls | Border

STOPPED = {
    "max_tokens": (
        "max_tokens",
        "The answer was cut off at max_tokens; its tool calls were not run.",
    ),
    "refusal": ("model_refusal", "The model refused to answer."),
    "model_context_window_exceeded": (
        "context_window",
        "The conversation no longer fits the model's context.",
    ),
}


def next_action(at: Position) -> Action:
    if at.failure is not None:
        return Fail(at.failure)
    if at.cancelling:
        # What has begun is settled from the ledger; nothing new begins.
        return _run(at, Phase.IN_DOUBT) or _wind_up(at)
    return _run(at, Phase.TODO, Phase.IN_DOUBT) or _wait(at) or _after_turn(at)


def _wind_up(at: Position) -> Action:
    if at.children or at.compensation is Phase.HELD:
        return Park()
    if at.compensation is not Phase.TODO:
        return Finish("cancelled")
    return HandOff("drain") if at.draining else Compensate()


def _run(at: Position, *phases: Phase) -> RunCalls | None:
    due = tuple(index for index, phase in enumerate(at.calls) if phase in phases)
    return RunCalls(at.turn, due) if due else None


def _wait(at: Position) -> Park | None:
    return Park() if at.backing_off or Phase.HELD in at.calls else None


def _after_turn(at: Position) -> Action:
    match at.stop_reason:
        case None | "pause_turn":
            return _go_on(at)
        case "end_turn" | "stop_sequence":
            return _go_on(at) if at.messages else Finish("succeeded")
        case "tool_use" if at.final and not at.messages:
            return Finish("succeeded")
        case "tool_use" if at.calls:
            return _go_on(at)
        case "tool_use":
            return Fail(Failure("model_error", "The model stopped for a tool but asked for none."))
        case "max_tokens" | "refusal" | "model_context_window_exceeded" as stop:
            return Fail(Failure(*STOPPED[stop]))
        case unknown:
            return Fail(Failure("unknown_stop_reason", f"The model stopped with {unknown!r}."))


def _go_on(at: Position) -> Action:
    if at.draining:
        return HandOff("drain")
    if at.turns_in_leg >= TURNS_PER_LEG:
        return HandOff("long leg")
    return CallModel(at.turn + 1)
