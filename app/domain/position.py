"""Where a leg stands: made of journaled step outputs, and of nothing else."""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Self


class Phase(StrEnum):
    """What a leg has to do about a call."""

    TODO = "todo"
    IN_DOUBT = "in_doubt"  # started by an execution that is gone
    HELD = "held"  # an open wait holds it
    DONE = "done"


def phase_of(state: str, *, held: bool) -> Phase:
    """From a call's state, and whether an open wait holds it."""
    if held:
        return Phase.HELD
    match state:
        case "proposed" | "waiting" | "ready":
            return Phase.TODO
        case "started":
            return Phase.IN_DOUBT
        case _:
            return Phase.DONE


@dataclass(frozen=True)
class Failure:
    reason: str
    detail: str


@dataclass(frozen=True)
class Position:
    turn: int = 0
    stop_reason: str | None = None
    calls: tuple[Phase, ...] = ()
    final: bool = False
    backing_off: bool = False
    messages: bool = False
    cancelling: bool = False
    children: bool = False
    compensation: Phase | None = None
    draining: bool = False
    failure: Failure | None = None
    turns_in_leg: int = 0

    @classmethod
    def read(cls, output: dict[str, Any]) -> Self:
        """From the output of a step that looked at our tables."""
        return cls(
            turn=output["turn"],
            stop_reason=output["stop_reason"],
            calls=tuple(Phase(phase) for phase in output["calls"]),
            final=output["final"],
            backing_off=output["backing_off"],
            messages=output["messages"],
            cancelling=output["cancelling"],
            # Absent from what was journaled before they were known.
            children=output.get("children", False),
            compensation=Phase(output["compensation"]) if output.get("compensation") else None,
            draining=output["draining"],
        )

    def after_look(self, output: dict[str, Any]) -> Self:
        """After a park or a settlement found that there is still something to do."""
        return replace(self.read(output), turns_in_leg=self.turns_in_leg)

    def after_model(self, output: dict[str, Any]) -> Self:
        match output["outcome"]:
            case "answered":
                return replace(
                    self,
                    turn=output["turn"],
                    stop_reason=output["stop_reason"],
                    calls=(Phase.TODO,) * output["calls"],
                    final=False,
                    messages=False,
                    draining=output["draining"],
                    turns_in_leg=self.turns_in_leg + 1,
                )
            case "backing_off":
                return replace(self, backing_off=True, draining=output["draining"])
            case "cancel":
                return replace(self, cancelling=True)
            case "failed":
                return replace(self, failure=Failure(output["reason"], output["detail"]))
            case other:
                raise ValueError(f"a model step cannot end in {other!r}")

    def after_calls(self, outputs: list[dict[str, Any]]) -> Self:
        calls = list(self.calls)
        for output in outputs:
            calls[output["index"]] = Phase(output["phase"])
        return replace(
            self,
            calls=tuple(calls),
            final=self.final or any(output["final"] for output in outputs),
            cancelling=self.cancelling or any(output["cancelling"] for output in outputs),
            draining=any(output["draining"] for output in outputs),
        )
