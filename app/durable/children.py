"""Child runs: started in the commit that records the call they answer."""

from app.domain.canonical import encode
from app.domain.ids import new_run_id, new_session_id
from app.durable import ledger
from app.durable.execution import bench, execution
from app.durable.ledger import Call
from app.durable.results import fits
from app.store import agents, calls, events, runs
from app.store.calls import Hold, Intent
from app.store.db import Row, Transaction

# A root's child has depth 1.
DEEPEST = 5


async def delegate(call: Call, intent: Intent, attempt: int) -> None:
    """Starts the child, or tells the model why there is none."""
    name = intent.arguments["agent"]
    if execution().facts["depth"] >= DEEPEST:
        detail = f"Runs are nested at most {DEEPEST} deep; do this task yourself."
        await _refuse(call, intent, "too_deep", detail)
        return
    agent = await bench().store(lambda c: agents.find(c, name))
    if agent is None:
        known = await bench().store(agents.names)
        detail = f"There is no agent {name!r}. There are: {', '.join(known)}."
        await _refuse(call, intent, "unknown_agent", detail)
        return
    await _start(call, intent, attempt, agent)


async def _start(call: Call, intent: Intent, attempt: int, agent: Row) -> None:
    me, at = execution(), bench()
    name, child, session = intent.arguments["agent"], new_run_id(), new_session_id()
    place = call.place(attempt)
    wait = Hold("waiting", "child", f"what {name} comes to in {child}")

    async def start(transaction: Transaction) -> str:
        connection = transaction.connection
        verdict = await calls.hold(connection, place, intent, wait)
        if verdict != "held":
            return verdict
        before = await runs.child_of(connection, call.id)
        if before is not None:
            await _take_result(transaction, before)
            return verdict
        await runs.make_work(connection, session, None)
        await runs.insert_child(
            connection,
            {
                "id": child,
                "parent": me.run,
                "delegated_by": call.id,
                "agent": name,
                "agent_version": agent["version"],
                "session": session,
                "input": encode(intent.arguments["input"]),
                "limits": encode(agent["definition"]["limits"]),
            },
        )
        facts = {"agent": name, "agent_version": agent["version"], "held": False}
        await events.tell(connection, child, "run.queued", **facts, parent=me.run, call=call.id)
        await at.legs.enqueue(transaction, child, 1)
        return verdict

    me.guard(await at.transact(start))
    at.notifier.tell(child)


async def _take_result(transaction: Transaction, child: Row) -> None:
    """Of a child that a dead letter had not waited for to its end."""
    output = child["output"]
    result = None if output is None else result_of(child["id"], output)
    parent = await runs.child_ended(transaction.connection, child["id"], result)
    if parent["leg"] is not None:
        await bench().legs.enqueue(transaction, parent["run"], parent["leg"])


async def _refuse(call: Call, intent: Intent, error: str, detail: str) -> None:
    await ledger.finish(call, "failed", {"error": error, "detail": detail}, intent=intent)


def result_of(run: str, output: Row) -> Row:
    """What a child's success is to its parent's model."""
    result = {"run": run, "text": output["text"]}
    if "data" in output:
        result["data"] = output["data"]
    fitting: Row = fits(result)
    return fitting
