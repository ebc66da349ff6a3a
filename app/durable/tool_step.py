"""One tool call, driven through the ledger until it has ended or something is waited for."""

import time
from typing import Any

from app.domain.position import Phase
from app.domain.replay import (
    Attempts,
    End,
    Verdict,
    after_crash,
    after_end,
    after_reconcile,
    writes_intent,
)
from app.durable import ledger, proposal
from app.durable.attempt import Ended, run_body
from app.durable.execution import bench
from app.durable.ledger import Call
from app.durable.liveness import is_proved_dead
from app.durable.reconcile import ask_world
from app.durable.transactional import run_transactional
from app.store.calls import Intent
from app.tools.declare import Tool

NOT_CALLED = "not_called"


async def tool_step(run: str, turn: int, index: int) -> dict[str, Any]:
    """Each call of a turn is a step of its own: a sibling's crash makes it not unknown."""
    while True:
        call = await ledger.load(run, turn, index)
        phase = call.phase
        todo = phase is Phase.IN_DOUBT or (phase is Phase.TODO and not call.cancelling)
        if not todo:
            return {
                "turn": turn,
                "index": index,
                "phase": phase,
                "final": call.state == "succeeded" and call.tool is not None and call.tool.final,
                "cancelling": call.cancelling,
                "draining": bench().draining.is_set(),
            }
        await _advance(call)


async def _advance(call: Call) -> None:
    """Makes one transition of the ledger; what comes next is read from there."""
    if call.state == "started":
        await _after_crash(call)
    elif call.state == "proposed":
        intent = await proposal.propose(call)
        if intent is not None and call.tool is not None:
            await _run(call, call.tool, intent)
    elif call.tool is None:
        await proposal.refuse(call, "tool_missing", proposal.missing(call))
    elif await proposal.may_run(call, call.tool):
        await _run(call, call.tool, call.intent(call.tool))


async def _run(call: Call, tool: Tool, intent: Intent) -> None:
    attempt = call.attempt + 1
    await bench().may_begin()
    if intent.replay == "transactional":
        ended = await run_transactional(
            call.with_arguments(intent.arguments), tool, intent, attempt
        )
    elif writes_intent(call.policy(tool)):
        ended = await _run_after_intent(call, tool, intent, attempt)
    else:
        ended = await _run_and_finish(call, tool, intent, attempt)
    if ended is not None:
        await _settle_end(call, tool, intent, attempt, ended)


async def _run_after_intent(call: Call, tool: Tool, intent: Intent, attempt: int) -> Ended | None:
    """No intent, no effect: the tool is called only once `started` is committed, and soon after."""
    asked = time.monotonic()
    if await ledger.start(call, intent, attempt) != "ok":
        return None
    await bench().may_begin()
    if tool.timeout is not None and time.monotonic() - asked > tool.timeout:
        await _again(call, intent, attempt, 0.0, NOT_CALLED)
        return None
    return await _run_and_finish(call, tool, intent, attempt)


async def _run_and_finish(call: Call, tool: Tool, intent: Intent, attempt: int) -> Ended | None:
    ended = await run_body(call.with_arguments(intent.arguments), tool, attempt)
    if isinstance(ended, Ended):
        return ended
    await ledger.finish(
        call, "succeeded", ended.result, intent=intent, attempt=attempt, ended="succeeded"
    )
    return None


async def _settle_end(call: Call, tool: Tool, intent: Intent, attempt: int, ended: Ended) -> None:
    attempts = call.attempts(
        tool, this_one=ended.how in (End.RAISED, End.TIMED_OUT, End.STILL_RUNNING)
    )
    policy = call.policy(tool)
    match after_end(policy, ended.how, attempts):
        case Verdict.FAIL:
            result = {"error": ended.how, "detail": ended.detail}
            await ledger.finish(
                call, "failed", result, intent=intent, attempt=attempt, ended=ended.how
            )
        case Verdict.CANCEL:
            await ledger.finish(
                call, "cancelled", None, intent=intent, attempt=attempt, ended=ended.how
            )
        case Verdict.AGAIN:
            await _again(call, intent, attempt, _pause(attempts), ended.how)
        case Verdict.RECONCILE:
            over = ended.how is not End.STILL_RUNNING
            await _reconcile(call, tool, intent, attempt, attempts, over=over, ended=ended.how)
        case other:
            raise AssertionError(f"no body ends in {other}")


async def _after_crash(call: Call) -> None:
    """There is an intent and no outcome, and whoever wrote it is gone."""
    tool = call.tool
    if tool is None:
        await _unknown(call, None, call.recorded_intent(), call.attempt, "interrupted")
        return
    match after_crash(call.policy(tool), cancelling=call.cancelling):
        case Verdict.RUN:
            await _run(call, tool, call.intent(tool))
        case Verdict.RECONCILE:
            dead = await is_proved_dead(call.row["worker"])
            await _reconcile(
                call,
                tool,
                call.intent(tool),
                call.attempt,
                call.attempts(tool),
                over=dead,
                ended="interrupted",
            )
        case Verdict.CANCEL:
            await ledger.finish(call, "cancelled", None, attempt=call.attempt, ended="interrupted")
        case other:
            raise AssertionError(f"no crash ends in {other}")


async def _reconcile(
    call: Call,
    tool: Tool,
    intent: Intent,
    attempt: int,
    attempts: Attempts,
    *,
    over: bool,
    ended: str,
) -> None:
    finding, result = await ask_world(call.with_arguments(intent.arguments), tool, attempt)
    match after_reconcile(finding, attempts, over=over, cancelling=call.cancelling):
        case Verdict.SUCCEED:
            await ledger.finish(
                call, "succeeded", result, intent=intent, attempt=attempt, ended="reconciled"
            )
        case Verdict.UNKNOWN:
            await _unknown(call, tool, intent, attempt, ended)
        case Verdict.AGAIN:
            await _again(call, intent, attempt, _pause(attempts), ended)
        case Verdict.FAIL:
            result = {"error": ended, "detail": f"{tool.name} failed; it had no effect."}
            await ledger.finish(call, "failed", result, intent=intent, attempt=attempt, ended=ended)
        case Verdict.CANCEL:
            await ledger.finish(
                call, "cancelled", None, intent=intent, attempt=attempt, ended=ended
            )
        case other:
            raise AssertionError(f"no finding leads to {other}")


async def _unknown(call: Call, tool: Tool | None, intent: Intent, attempt: int, ended: str) -> None:
    """Said, not guessed: to the model, or first to a person."""
    if tool is not None and tool.on_unknown == "ask" and not call.cancelling:
        question = (
            f"Did {tool.name} happen? Its attempt {attempt} ended without an outcome ({ended})."
        )
        await ledger.hold(
            call,
            intent,
            "outcome_unknown",
            kind="outcome",
            question=question,
            attempt=attempt,
            ended=ended,
        )
        return
    result = {"error": "outcome_unknown", "detail": ended}
    await ledger.finish(
        call, "outcome_unknown", result, intent=intent, attempt=attempt, ended=ended
    )


async def _again(call: Call, intent: Intent, attempt: int, seconds: float, ended: str) -> None:
    question = "when to run the next attempt"
    await ledger.hold(
        call,
        intent,
        "ready",
        kind="timer",
        question=question,
        attempt=attempt,
        seconds=seconds,
        ended=ended,
    )


def _pause(attempts: Attempts) -> float:
    """0.5 s doubling to 30 s."""
    return float(min(0.5 * 2 ** max(attempts.failed - 1, 0), 30.0))
