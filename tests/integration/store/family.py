"""Runs that start others, by hand: what a leg that delegates and a leg that ends would do."""

from dataclasses import dataclass
from typing import Any

from app.domain.canonical import encode
from app.domain.ids import call_id, new_run_id, new_session_id
from app.domain.limits import Limits
from app.durable.ending import followers
from app.store import agents, calls, children, events, sessions
from app.store.calls import Hold
from app.store.db import Row
from tests.integration.store.stage import Stage, intent

DELEGATE = intent("transactional")
CHILD = Hold("waiting", "child", "what desk comes to")
RESULT = {"run": "run_child", "text": "Done."}


@dataclass(frozen=True)
class Parent:
    """A run under way whose calls are answered by children."""

    id: str
    fence: int
    call: str
    child: str

    @property
    def second_call(self) -> str:
        """Beside it in its turn."""
        return call_id(self.id, 1, 1)


async def register(stage: Stage, agent: str, on_denial: str = "tell_model") -> str:
    """An agent whose `pay` can be undone and whose `look` cannot."""
    tools = [
        {"name": name, "final": False, "has": {"compensate": name == "pay"}}
        for name in ("pay", "look", "delegate")
    ]
    definition = {"limits": Limits().to_json(), "tools": tools, "on_denial": on_denial}
    await agents.register(stage.connection, agent, "v1", definition)
    return agent


async def delegate(
    stage: Stage, run: str, fence: int, call: str, child: str | None = None, **values: Any
) -> str:
    """Starts a child in the commit that holds the call; the verdict of that."""
    made = {
        "id": child or new_run_id(),
        "parent": run,
        "delegated_by": call,
        "agent": values.get("agent", "desk"),
        "agent_version": "v1",
        "session": new_session_id(),
        "input": encode("do a part of it"),
        "limits": encode(Limits().to_json() | values.get("limits", {})),
    }
    at = stage.place(run, fence, call)
    async with stage.connection.transaction():
        verdict = await calls.hold(stage.connection, at, DELEGATE, CHILD)
        if verdict == "held":
            await sessions.make(stage.connection, made["session"], None)
            await children.insert(stage.connection, made)
            await events.tell(stage.connection, made["id"], "run.queued", held=False)
    return verdict


async def give_birth(stage: Stage, run: str, beside: str | None = None, **values: Any) -> Parent:
    """The run's first turn, which starts a child and may ask for one more tool."""
    fence = await stage.take(run)
    call = (await stage.turn(run, fence, 1, "delegate", *([beside] if beside else [])))[0]
    child = new_run_id()
    assert await delegate(stage, run, fence, call, child, **values) == "held"
    return Parent(run, fence, call, child)


async def family(stage: Stage, *, parked: bool = True, **values: Any) -> Parent:
    """A run that waits for its child, which is queued."""
    found = await give_birth(stage, await stage.submit(**values))
    if parked:
        assert await stage.park(found.id, found.fence) == "parked"
    return found


async def line(stage: Stage, length: int, **values: Any) -> list[str]:
    """Runs that wait for each other, the root first; the last one is queued."""
    members = [await stage.submit(**values)]
    while len(members) < length:
        grown = await give_birth(stage, members[-1])
        assert await stage.park(grown.id, grown.fence) == "parked"
        members.append(grown.child)
    return members


async def settle(
    stage: Stage, run: str, fence: int | None, status: str = "succeeded", **more: Any
) -> tuple[str, list[Row]]:
    """The last transaction of a leg: the verdict, and whom it sets going."""
    result = more.pop("result", RESULT if status == "succeeded" else None)
    async with stage.connection.transaction():
        work = await sessions.lock_of(stage.connection, run)
        assert work is not None
        verdict = await stage.end(run, fence, status, **more)
        if verdict != "ended":
            return verdict, []
        return verdict, await followers(stage.connection, {**work, "id": run}, result)


async def paid(stage: Stage, run: str, fence: int, turn: int, *tools: str) -> list[str]:
    """A turn whose calls all succeed."""
    made = await stage.turn(run, fence, turn, *tools)
    for call in made:
        at = stage.place(run, fence, call)
        assert await stage.start(at) == "ok"
        assert await stage.finish(at, result={"id": call}) == "ok"
    return made


def undo_of(run: str, turn: int, index: int = 0) -> str:
    """The id of the call that undoes another, in the turn after the run's last."""
    return call_id(run, turn, index)
