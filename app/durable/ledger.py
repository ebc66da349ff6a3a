"""The ledger as a tool step sees it: a call, and the transitions it can make."""

from dataclasses import dataclass, replace
from typing import Any

from app.domain.position import Phase, phase_of
from app.domain.replay import Attempts, Policy, agreed
from app.durable.execution import bench, execution
from app.store import calls
from app.store.calls import Hold, Intent, Outcome, Place
from app.store.db import Row, Transaction
from app.tools.agent import Agent
from app.tools.declare import Tool
from app.tools.undo import undo_of

# Attempts that ended without a result, as they stand in a call's history.
FAILED = ("raised", "timed_out", "still_running", "did_not_happen")


@dataclass(frozen=True)
class Call:
    row: Row
    agent: Agent | None
    tool: Tool | None

    @property
    def id(self) -> str:
        return str(self.row["id"])

    @property
    def state(self) -> str:
        return str(self.row["state"])

    @property
    def phase(self) -> Phase:
        return phase_of(self.state, held=self.row["held"])

    @property
    def undoes(self) -> bool:
        return self.row["compensates"] is not None

    @property
    def cancelling(self) -> bool:
        """Whether the cancel of its run ends this call too; it is what sets an undo going."""
        return bool(self.row["status"] == "cancelling") and not self.undoes

    @property
    def attempt(self) -> int:
        """The last one that was begun; 0 before the first."""
        return int(self.row["attempts"])

    @property
    def arguments(self) -> dict[str, Any]:
        return dict(self.row["arguments"])

    def policy(self, tool: Tool) -> Policy:
        return agreed(self.row["replay"], tool.replay)

    def attempts(self, tool: Tool, *, this_one: bool = False) -> Attempts:
        failed = sum(attempt["outcome"] in FAILED for attempt in self.row["history"])
        return Attempts(failed + this_one, tool.attempts)

    def intent(self, tool: Tool) -> Intent:
        """As recorded: once proposed, only the stored arguments decide."""
        return Intent(
            self.arguments, self.row["arguments_hash"], self.policy(tool), self.row["approval"]
        )

    def recorded_intent(self) -> Intent:
        """For a call whose tool is gone: as it was begun."""
        row = self.row
        return Intent(self.arguments, row["arguments_hash"], row["replay"], row["approval"])

    def with_arguments(self, arguments: dict[str, Any]) -> "Call":
        """The call as its body sees it, before its row says so."""
        return replace(self, row={**self.row, "arguments": arguments})

    def place(self, attempt: int) -> Place:
        me = execution()
        return Place(me.run, me.fence, self.id, bench().worker, attempt)


async def load(run: str, turn: int, index: int) -> Call:
    at = bench()
    found = await at.store(lambda c: calls.load(c, run, turn, index))
    agent = at.registry.agent(found["agent"])
    tool = None if agent is None else agent.tool(found["tool"])
    if tool is not None and found["compensates"] is not None:
        tool = undo_of(tool)
    return Call(found, agent, tool)


async def start(call: Call, intent: Intent, attempt: int) -> str:
    """'ok' once the intent is committed; 'cancel' or 'moved' where the tool must not be called."""
    place = call.place(attempt)
    verdict = await bench().store(lambda c: calls.start(c, place, intent))
    return execution().guard(verdict)


async def finish(
    call: Call,
    state: str,
    result: object,
    *,
    intent: Intent | None = None,
    attempt: int = 0,
    ended: str | None = None,
    took: float = 0.0,
) -> None:
    place = call.place(attempt)
    failed = state != "succeeded"
    outcome = Outcome(state, result, is_error=failed, attempt_ended=ended, took=took)
    verdict = await bench().store(lambda c: calls.finish(c, place, intent, outcome))
    if verdict == "late":
        await bench().transact(lambda t: _settle_late(t, place, result))
        verdict = "fenced"
    execution().guard(verdict)


async def _settle_late(transaction: Transaction, place: Place, result: object) -> None:
    """The call is no longer unknown, though another execution has gone on without it."""
    settled = await calls.settle_late(transaction.connection, place, result)
    if settled["leg"] is not None:
        await bench().legs.enqueue(transaction, place.run, settled["leg"])


async def hold(call: Call, intent: Intent, wait: Hold, attempt: int = 0) -> None:
    place = call.place(attempt)
    verdict = await bench().store(lambda c: calls.hold(c, place, intent, wait))
    execution().guard(verdict)


async def next_compensation() -> tuple[int, int] | None:
    """Turn and index of the call that undoes the next one, if any is left to undo."""
    me = execution()
    found = await bench().store(lambda c: calls.next_compensation(c, me.run, me.fence))
    me.guard(found["verdict"])
    return None if found["turn"] is None else (found["turn"], found["index"])
