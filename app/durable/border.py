"""The borders of a leg: taking the run, looking where it stands, letting go of it."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Any

from dbos import DBOS
from pydantic import ValidationError

from app.domain.position import phase_of
from app.durable import names
from app.durable.children import result_of
from app.durable.ending import let_go
from app.durable.execution import Execution, bench, enter, execution, insist
from app.errors import Fenced
from app.store import runs, sessions, turns, workers
from app.store.db import Connection, Transaction, be_brief
from app.tools.values import to_json

Output = dict[str, Any]

# Between the legs of a run that lands where its agent is not: while another worker has it, or none.
ELSEWHERE_SECONDS = 0.5
HOMELESS_SECONDS = 5.0
# Of a run whose session is held, while as many others wait in line for theirs.
PATIENCE_MS = 200


async def take(run: str, leg: int) -> bool:
    """Begins this execution; False where it has nothing to do here.

    Outside the journal: a fence that is journaled would be shared by a frozen worker and its
    successor, and what this worker has at hand is no fact about the run.
    """
    at = bench()
    at.loop = asyncio.get_running_loop()
    await at.may_begin()
    name = f"{at.worker}/{next(at.executions)}"
    verdict, fence = await at.store(lambda c: runs.take(c, run, leg, at.worker, name))
    if verdict == "dead":
        raise Fenced(f"{at.worker} has been given up")
    if verdict == "moved":
        return False
    facts = await at.store(lambda c: runs.facts(c, run))
    enter(Execution(run, leg, fence, facts))
    # To end it nothing of the agent is needed, but to undo what it did is.
    ending = facts["cancelling"] and not facts["compensate"]
    if ending or at.registry.agent(facts["agent"]) is not None:
        return True
    await leave_for_another(run, leg)
    return False


async def leave_for_another(run: str, leg: int) -> str:
    """For a worker that has the agent. Which one takes the run is chance, so it may come back."""
    agent = execution().facts["agent"]
    somebody = await bench().store(lambda c: workers.has_agent(c, agent))
    pause = ELSEWHERE_SECONDS if somebody else HOMELESS_SECONDS
    return await _hand_off(run, leg, "no such agent here", pause)


@DBOS.step(name=names.OPEN)
async def open_leg(run: str, leg: int) -> Output:
    return await look(run)


async def look(run: str) -> Output:
    at = bench()
    found = await at.store(lambda c: runs.look(c, run))
    calls = found.pop("calls")
    finals = _final_tools()
    return {
        **found,
        "calls": [phase_of(call["state"], held=call["held"]) for call in calls],
        "final": any(call["state"] == "succeeded" and call["tool"] in finals for call in calls),
        "draining": at.draining.is_set(),
    }


@DBOS.step(name=names.PARK)
async def park_step(run: str, leg: int) -> Output:
    me = execution()
    verdict = me.guard(await bench().store(lambda c: runs.park(c, run, me.fence, leg)))
    if verdict == "again":
        return {"position": await look(run)}
    return {"ended": verdict}


@DBOS.step(name=names.HAND_OFF)
async def hand_off_step(run: str, leg: int, why: str) -> Output:
    return {"ended": await _hand_off(run, leg, why)}


async def _hand_off(run: str, leg: int, why: str, pause: float = 0.0) -> str:
    """The end of this leg and the next one's place in the queue are one commit."""
    me, at = execution(), bench()

    async def hand_off(transaction: Transaction) -> str:
        verdict = await runs.hand_off(transaction.connection, run, me.fence, leg, why)
        if verdict == "handed_off":
            await at.legs.enqueue(transaction, run, leg + 1, pause=pause)
        return verdict

    return me.guard(await at.transact(hand_off))


@DBOS.step(name=names.SETTLE)
async def settle_step(
    run: str, turn: int, status: str, reason: str | None, detail: str | None
) -> Output:
    """Ends the run, unless something came in that has to be dealt with first."""
    me, at = execution(), bench()
    output = None
    if status == "succeeded":
        output, reason, detail = await at.store(lambda c: _output(c, run, turn))
        status = "failed" if reason else status
    error = None if reason is None else {"type": reason, "detail": detail}

    async def settle(transaction: Transaction) -> str:
        connection = transaction.connection
        work = await sessions.lock_of(connection, run)
        assert work is not None
        verdict = await runs.end(
            connection, run, me.fence, status, reason=reason, output=output, error=error
        )
        if verdict == "ended":
            result = _for_parent(me, output)
            for each in await let_go(transaction, at.legs, work, result):
                at.notifier.tell(each)
        return verdict

    verdict = me.guard(await _in_line(settle))
    if verdict in ("ended", "over"):
        return {"ended": status}
    return {"position": await look(run)}


async def _in_line(act: Callable[[Transaction], Awaitable[str]]) -> str:
    """Whoever submits from SQL may hold a session for long, and others need the connections
    meanwhile; but who only looks in briefly never has its turn where many come and go.
    """
    at = bench()

    async def once() -> str:
        has_room = not at.line.locked()
        async with (
            at.line if has_room else nullcontext(),
            at.database.transaction() as transaction,
        ):
            if not has_room:
                await be_brief(transaction.connection, PATIENCE_MS)
            return await act(transaction)

    return await insist(once)


def _for_parent(me: Execution, output: Output | None) -> object:
    return None if output is None or me.facts["parent"] is None else result_of(me.run, output)


async def _output(
    connection: Connection, run: str, turn: int
) -> tuple[Output | None, str | None, str | None]:
    """The run's output, or the reason and the detail of why it has none."""
    last = await turns.stored(connection, run, turn)
    texts = [block.get("text") for block in last["content"] if block.get("type") == "text"]
    text = "".join(text for text in texts if isinstance(text, str))
    output: Output = {"text": text, "content": last["content"]}
    finals = [
        call
        for call in last["calls"]
        if call["tool"] in _final_tools() and call["state"] == "succeeded"
    ]
    if finals:
        return {**output, "data": finals[0]["result"]}, None, None
    agent = bench().registry.agent(execution().facts["agent"])
    if agent is None or agent.output is None:
        return output, None, None
    try:
        data = to_json(agent.output.model_validate_json(text))
    except Exception as error:  # noqa: BLE001 - a validator of the agent's own may raise anything
        return None, "output_invalid", f"The answer does not fit the agent's output: {_why(error)}"
    return {**output, "data": data}, None, None


def _why(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return f"it raised {type(error).__name__}"
    return error.errors(include_input=False, include_url=False, include_context=False)[0]["msg"]


def _final_tools() -> set[str]:
    tools = execution().facts["definition"]["tools"]
    return {tool["name"] for tool in tools if tool["final"]}
