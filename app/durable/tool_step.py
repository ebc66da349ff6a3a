"""One tool call, driven through the ledger until it has ended or something is waited for."""

from typing import Any

from dbos import DBOS

from app import telemetry
from app.domain.position import Phase
from app.domain.replay import End, Finding, Verdict, after_crash, writes_intent
from app.durable import ledger, names, proposal
from app.durable.attempt import NOT_CALLED, Attempt, finish_unknown
from app.durable.border import leave_for_another, look
from app.durable.execution import bench, execution
from app.durable.ledger import Call
from app.durable.liveness import is_proved_dead
from app.tools.declare import Tool

# How an attempt ends that is known to have ended.
OVER = (End.RAISED, End.TIMED_OUT, Finding.DID_NOT_HAPPEN, NOT_CALLED)


async def tool_step(run: str, turn: int, index: int) -> dict[str, Any]:
    """Each call of a turn is a step of its own: a sibling's crash makes it not unknown."""
    return await carry(run, turn, index)


@DBOS.step(name=names.COMPENSATE)
async def compensate_step(run: str, leg: int) -> dict[str, Any]:
    """Undoes one call of a run that is being cancelled, and looks what is left."""
    if bench().registry.agent(execution().facts["agent"]) is None:
        return {"ended": await leave_for_another(run, leg)}
    place = await ledger.next_compensation()
    if place is not None:
        await carry(run, *place)
    return {"position": await look(run)}


async def carry(run: str, turn: int, index: int) -> dict[str, Any]:
    with telemetry.place(turn=turn, index=index):
        while True:
            call = await ledger.load(run, turn, index)
            phase = call.phase
            if phase is not Phase.IN_DOUBT and (phase is not Phase.TODO or call.cancelling):
                return _output(call, phase, call.state == "succeeded")
            if await _advance(call):
                return _output(call, Phase.DONE, succeeded=True)


def _output(call: Call, phase: Phase, succeeded: bool) -> dict[str, Any]:
    return {
        "turn": call.row["turn"],
        "index": call.row["index"],
        "phase": phase,
        "final": succeeded and call.tool is not None and call.tool.final,
        "cancelling": call.cancelling,
        "draining": bench().draining.is_set(),
    }


async def _advance(call: Call) -> bool:
    """Takes the call one step on. True once it has succeeded; else the ledger knows the rest."""
    await bench().may_begin()
    if call.state == "started":
        return await _after_crash(call)
    if call.state == "proposed":
        intent = await proposal.propose(call)
        if intent is None or call.tool is None:
            return False
        return await Attempt.next(call, call.tool, intent).run()
    if call.tool is None:
        await _without_tool(call)
        return False
    if not await proposal.may_run(call, call.tool):
        return False
    return await _run_recorded(call, call.tool)


async def _without_tool(call: Call) -> None:
    """The tool is gone since a deploy, and with it the means to find out what it did."""
    if call.attempt > 0 and writes_intent(call.row["replay"]):
        await finish_unknown(call, call.recorded_intent(), call.attempt, "tool_missing")
    else:
        await proposal.refuse(call, "tool_missing", proposal.missing(call))


async def _run_recorded(call: Call, tool: Tool) -> bool:
    """Runs it with the arguments that are recorded, if the tool still takes them."""
    problem = proposal.unfit(call, tool)
    if problem is None:
        return await Attempt.next(call, tool, call.intent(tool)).run()
    if call.attempt == 0 or not writes_intent(call.policy(tool)):
        await proposal.refuse(call, "invalid_arguments", problem)
    else:
        await Attempt.last(call, tool).give_up(over=await _is_over(call))
    return False


async def _is_over(call: Call) -> bool:
    """Whether none of its attempts can act any more."""
    if call.state == "started":
        return await is_proved_dead(call.row["worker"])
    return all(attempt["outcome"] in OVER for attempt in call.row["history"])


async def _after_crash(call: Call) -> bool:
    """There is an intent and no outcome, and whoever wrote it is gone."""
    tool = call.tool
    if tool is None:
        await finish_unknown(call, call.recorded_intent(), call.attempt, End.INTERRUPTED)
        return False
    match after_crash(call.policy(tool), cancelling=call.cancelling):
        case Verdict.RUN:
            return await _run_recorded(call, tool)
        case Verdict.RECONCILE:
            over = await is_proved_dead(call.row["worker"])
            await Attempt.last(call, tool).interrupted(over=over)
        case Verdict.CANCEL:
            await ledger.finish(
                call, "cancelled", None, attempt=call.attempt, ended=End.INTERRUPTED
            )
        case other:
            raise AssertionError(f"no crash ends in {other}")
    return False
