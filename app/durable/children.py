"""Child runs: started in the commit that records the call they answer."""

from collections.abc import Awaitable, Callable

from app.domain.canonical import encode, scrub
from app.domain.ids import new_run_id, new_session_id
from app.durable import ledger
from app.durable.execution import bench, execution
from app.durable.ledger import Call
from app.durable.results import fits
from app.store import agents, calls, children, events, sessions
from app.store.calls import Hold, Intent
from app.store.db import Row, Transaction

# A root's child has depth 1.
DEEPEST = 5


async def delegate(call: Call, intent: Intent, attempt: int) -> None:
    """Starts the child, or tells the model why there is none."""
    name = scrub(intent.arguments["agent"])
    before = await bench().store(lambda c: children.of_call(c, call.id))
    if before is not None:
        await _wait(call, intent, attempt, before["id"], lambda t: _take_result(t, call))
        return
    if execution().facts["depth"] >= DEEPEST:
        detail = f"Runs are nested at most {DEEPEST} deep; do this task yourself."
        await _refuse(call, intent, "too_deep", detail)
        return
    agent = await bench().store(lambda c: agents.find(c, name))
    if agent is None:
        known = await bench().store(agents.served)
        detail = f"There is no agent {name!r}. There are: {', '.join(known)}."
        await _refuse(call, intent, "unknown_agent", detail)
        return
    child = new_run_id()
    await _wait(call, intent, attempt, child, lambda t: _start(t, call, intent, child, agent))


async def _wait(
    call: Call,
    intent: Intent,
    attempt: int,
    child: str,
    begin: Callable[[Transaction], Awaitable[None]],
) -> None:
    """The call is held for the child in the commit that begins it."""
    at, place = bench(), call.place(attempt)
    wait = Hold("waiting", "child", f"what run {child} comes to")

    async def hold(transaction: Transaction) -> str:
        verdict = await calls.hold(transaction.connection, place, intent, wait)
        if verdict == "held":
            await begin(transaction)
        return verdict

    execution().guard(await at.transact(hold))
    at.notifier.tell(child)


async def _start(
    transaction: Transaction, call: Call, intent: Intent, child: str, agent: Row
) -> None:
    connection, parent, session = transaction.connection, execution().run, new_session_id()
    version = {"agent": agent["name"], "agent_version": agent["version"]}
    await sessions.make(connection, session, None)
    await children.insert(
        connection,
        {
            **version,
            "id": child,
            "parent": parent,
            "delegated_by": call.id,
            "session": session,
            "input": encode(intent.arguments["input"]),
            "limits": encode(agent["definition"]["limits"]),
        },
    )
    told = {**version, "held": False, "parent": parent, "call": call.id}
    await events.tell(connection, child, "run.queued", **told)
    await bench().legs.enqueue(transaction, child, 1)


async def _take_result(transaction: Transaction, call: Call) -> None:
    """Of a child that a dead letter had not waited for to its end, if it has ended."""
    child = await children.of_call(transaction.connection, call.id)
    assert child is not None
    output = child["output"]
    result = None if output is None else result_of(child["id"], output)
    parent = await children.ended(transaction.connection, child["id"], result)
    if parent["leg"] is not None:
        await bench().legs.enqueue(transaction, parent["run"], parent["leg"])


async def _refuse(call: Call, intent: Intent, error: str, detail: str) -> None:
    await ledger.finish(call, "failed", {"error": error, "detail": detail}, intent=intent)


def result_of(run: str, output: Row) -> Row:
    """What a child's success is to its parent's model."""
    result = {"run": run, "text": output["text"]}
    if "data" in output:
        result["data"] = output["data"]
    fitting: Row = fits(scrub(result))
    return fitting
