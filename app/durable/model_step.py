"""One model call, or the stored answer of the same turn."""

import hashlib
from typing import Any

from dbos import DBOS

from app.domain.canonical import canonical_json, digest
from app.domain.transcript import CACHE, ToldRun, cached, conversation
from app.durable import names
from app.durable.bodies import Stopped
from app.durable.execution import bench, execution
from app.llm.client import ModelAnswer, ModelFailure, ModelRequest
from app.llm.prices import cost
from app.store import turns
from app.store.db import Row

Output = dict[str, Any]

# A Retry-After beyond this is not waited for: the run fails.
LONGEST_WAIT = 3600.0
# The provider has too much to do: what it says then is said to all workers.
CROWDED = (429, 529)
LIMITS = {
    "limit_turns": "turns",
    "limit_tokens": "tokens",
    "limit_cost": "cost",
    "limit_seconds": "active seconds",
}


@DBOS.step(name=names.MODEL)
async def model_step(run: str, turn: int, continuing: bool) -> Output:
    """`continuing`: the model paused, and its answer goes back to it with nothing added."""
    at, me = bench(), execution()
    await at.may_begin()
    definition = me.facts["definition"]
    verdict = await at.store(
        lambda c: turns.begin(
            c,
            run,
            me.fence,
            turn,
            at.worker,
            _asked(definition, at.model.provider),
            take_messages=not continuing,
            cap=at.model_concurrency,
        )
    )
    match me.guard(verdict):
        case "answered":
            stored = await at.store(lambda c: turns.stored(c, run, turn))
            return await _answered(turn, stored["stop_reason"], len(stored["calls"]))
        case "cancel":
            return {"turn": turn, "outcome": "cancel"}
        case "call":
            return await _call(run, turn, definition)
        case "wait":
            return _backing_off(turn)
        case "deadline":
            return _failed(turn, "deadline", "The run's deadline has passed.")
        case limit:
            return _failed(turn, limit, f"The run has used up its limit of {LIMITS[limit]}.")


async def _call(run: str, turn: int, definition: Output) -> Output:
    at, me = bench(), execution()
    history = await at.store(lambda c: turns.history(c, run))
    request = _request(definition, history)
    await at.may_begin()  # it may have been frozen since it was told to call
    try:
        with at.deltas.of(run, turn, history[-1]["attempt"]) as hear:
            answer = await at.bodies.run(run, me.fence, at.model.answer(request, hear))
    except Stopped:
        stopped = ModelFailure("fatal", None, "cancelled", "The run was cancelled.", None, True)
        await _record_failure(run, turn, stopped, None)
        return {"turn": turn, "outcome": "cancel"}
    match answer:
        case ModelAnswer():
            calls = await _record(run, turn, answer)
            return await _answered(turn, answer.stop_reason, calls)
        case ModelFailure():
            return await _fail(run, turn, answer, history[-1]["model_failures"] + 1)


async def _record(run: str, turn: int, answer: ModelAnswer) -> int:
    """How many calls the turn asks for: none where the answer was cut off among them."""
    me = execution()
    asked_for = [block for block in answer.content if block.get("type") == "tool_use"]
    if answer.stop_reason != "tool_use":
        asked_for = []
    verdict = await bench().store(
        lambda c: turns.finish(
            c,
            run,
            me.fence,
            turn,
            model=answer.model,
            stop_reason=answer.stop_reason,
            content=answer.content,
            usage=vars(answer.usage),
            cost=cost(answer.model, answer.usage),
            asked_for=asked_for,
        )
    )
    me.guard(verdict)
    return len(asked_for)


async def _answered(turn: int, stop_reason: str, calls: int) -> Output:
    """Small: the journal refers to the answer, our tables hold it."""
    if calls and await _asks_too_much():
        return _failed(turn, "limit_calls", "This turn's calls exceed the limit; none was run.")
    return {
        "turn": turn,
        "outcome": "answered",
        "stop_reason": stop_reason,
        "calls": calls,
        "draining": bench().draining.is_set(),
    }


async def _asks_too_much() -> bool:
    me = execution()
    if me.facts["limits"]["calls"] is None and me.facts["parent"] is None:
        return False
    return await bench().store(lambda c: turns.asks_too_much(c, me.run))


async def _fail(run: str, turn: int, failure: ModelFailure, failures: int) -> Output:
    at = bench()
    pause = _back_off(run, turn, failures) + (failure.retry_after or 0.0)
    if failure.verdict == "retry" and failures < at.model_attempts and pause <= LONGEST_WAIT:
        await _record_failure(run, turn, failure, pause)
        return _backing_off(turn)
    await _record_failure(run, turn, failure, None)
    return _failed(turn, "model_error", f"{failure.type}: {failure.detail}")


async def _record_failure(
    run: str, turn: int, failure: ModelFailure, retry_seconds: float | None
) -> None:
    me = execution()
    verdict = await bench().store(
        lambda c: turns.fail(
            c,
            run,
            me.fence,
            turn,
            outcome=failure.type,
            detail=failure.detail,
            maybe_paid=failure.maybe_paid,
            retry_seconds=retry_seconds,
            told=_told(failure),
        )
    )
    me.guard(verdict)


def _backing_off(turn: int) -> Output:
    return {"turn": turn, "outcome": "backing_off", "draining": bench().draining.is_set()}


def _failed(turn: int, reason: str, detail: str) -> Output:
    return {"turn": turn, "outcome": "failed", "reason": reason, "detail": detail}


def _told(failure: ModelFailure) -> float | None:
    if failure.status not in CROWDED:
        return None
    return min(failure.retry_after or 0.0, LONGEST_WAIT)


def _back_off(run: str, turn: int, failures: int) -> float:
    """0.5 s doubling to 60 s, spread by half over runs so that they do not come back together."""
    spread = int(hashlib.sha256(f"{run}/{turn}/{failures}".encode()).hexdigest()[:4], 16) / 0xFFFF
    return min(0.5 * 2.0 ** (failures - 1), 60.0) * (0.75 + spread / 2)


def _asked(definition: Output, provider: str) -> turns.Asked:
    tools = [_schema(tool) for tool in definition["tools"]]
    return turns.Asked(
        model=definition["model"],
        parameters={
            "max_tokens": definition["max_tokens"],
            "thinking": definition["thinking"],
            "tools": {tool["name"]: digest(tool) for tool in tools},
        },
        prompt_hash=digest(_instructions(definition)),
        tools_hash=digest(tools),
        provider=provider,
    )


def _request(definition: Output, history: list[Row]) -> ModelRequest:
    """The stable prefix first, for the provider's cache: system, tools, transcript."""
    instructions = _instructions(definition)
    return ModelRequest(
        model=definition["model"],
        max_tokens=definition["max_tokens"],
        system=[{"type": "text", "text": instructions, "cache_control": CACHE}]
        if instructions
        else [],
        tools=[_schema(tool) for tool in definition["tools"]],
        messages=cached(conversation([ToldRun.read(run) for run in history])),
        thinking=definition["thinking"],
    )


def _instructions(definition: Output) -> str:
    parts = [definition["instructions"].strip()]
    if definition["output_schema"] is not None:
        schema = canonical_json(definition["output_schema"])
        parts.append(f"Give the final answer as JSON alone, fitting this schema: {schema}")
    return "\n\n".join(part for part in parts if part)


def _schema(tool: Output) -> Output:
    return {name: tool[name] for name in ("name", "description", "input_schema")}
