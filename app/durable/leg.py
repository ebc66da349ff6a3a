"""The leg: a short deterministic loop around `next_action`. Replayed after a crash, so it reads no
clock, no environment and no table but through its steps."""

import asyncio
from typing import Any, assert_never

from dbos import DBOS

from app.domain.next_action import (
    Border,
    CallModel,
    Compensate,
    Fail,
    Finish,
    HandOff,
    Park,
    RunCalls,
    next_action,
)
from app.domain.position import Position
from app.durable import names
from app.durable.border import hand_off_step, open_leg, park_step, settle_step, take
from app.durable.execution import in_hand
from app.durable.model_step import model_step
from app.durable.tool_step import compensate_step, tool_step


class Misplaced(Exception):
    """A journaled output belongs elsewhere: today's code takes another way than the journal."""


@DBOS.workflow(name=names.LEG, max_recovery_attempts=1_000_000)
async def leg(run: str, number: int) -> str:
    """Carries the run from a wake-up to a wait, a hand-off or its end. Answers how it ended."""
    with in_hand(run, number):
        return await _carry(run, number)


async def _carry(run: str, number: int) -> str:
    if not await take(run, number):
        return "moved"
    at = Position.read(await open_leg(run, number))
    while True:
        match next_action(at):
            case CallModel(turn):
                continuing = at.stop_reason == "pause_turn"
                output = await model_step(run, turn, continuing)
                at = at.after_model(_placed(output, turn=turn))
            case RunCalls(turn, indexes):
                at = at.after_calls(await _run_calls(run, turn, indexes))
            case border:
                over = await _cross(run, number, at.turn, border)
                if "position" not in over:
                    return str(over["ended"])
                at = at.after_look(over["position"])


async def _cross(run: str, number: int, turn: int, border: Border) -> dict[str, Any]:
    """How the leg ended, or where the run stands if it has not."""
    match border:
        case Park():
            return await park_step(run, number)
        case Compensate():
            return await compensate_step(run, number)
        case HandOff(why):
            return await hand_off_step(run, number, why)
        case Finish(status):
            return await settle_step(run, turn, status, None, None)
        case Fail(failure):
            return await settle_step(run, turn, "failed", failure.reason, failure.detail)
        case other:
            assert_never(other)


async def _run_calls(run: str, turn: int, indexes: tuple[int, ...]) -> list[dict[str, Any]]:
    """In parallel; the steps' places are drawn in order, whichever of them begins first."""
    steps = [(index, DBOS.reserve_step()) for index in indexes]
    outputs = await asyncio.gather(
        *(
            step.run_async({"name": names.TOOL}, tool_step, run, turn, index)
            for index, step in steps
        ),
        return_exceptions=True,
    )
    placed = []
    for index, output in zip(indexes, outputs, strict=True):
        if isinstance(output, BaseException):
            raise output
        placed.append(_placed(output, turn=turn, index=index))
    return placed


def _placed(output: dict[str, Any], **place: int) -> dict[str, Any]:
    """No call's result is ever handed to another, not even by a replay that has gone astray."""
    if any(output.get(name) != value for name, value in place.items()):
        raise Misplaced(f"expected {place}, the journal has {output}")
    return output
