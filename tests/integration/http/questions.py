"""Runs that are parked on a question, as the ledger leaves them."""

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from app import Agent, ToolContext, ask_user, delegate, tool
from tests.integration.http.rows import Rows, Values


class Receipt(BaseModel):
    number: int
    lines: list[str] = []


async def undo(ctx: ToolContext, args: dict[str, Any]) -> None:
    """Never run here."""


@tool(approval="always")
async def refund(order: str, amount: float, note: str | None = None) -> None:
    """Refund part of an order."""


@tool(external=True, result=Receipt)
async def print_receipt(order: str) -> None:
    """Print a receipt at the client's."""


@tool(external=True)
async def look_up(order: str) -> None:
    """Look an order up at the client's."""


@tool(replay="idempotent", compensate=undo)
async def pay(ref: str) -> None:
    """Pay a bill."""


TOOLS = [refund, print_receipt, look_up, pay, ask_user, delegate]
DESK = Agent(name="desk", model="claude-test", tools=TOOLS)
ARGUMENTS = {"order": "A-7", "amount": 5, "note": None}
DONE: Values = {"arguments": {}, "started_at": "2020-01-01", "finished_at": "2020-01-01"}
# Where the wait itself is the attempt.
BEGUN: Values = {
    "attempts": 1,
    "history": [
        {
            "attempt": 1,
            "worker": "w1",
            "fence": 1,
            "started_at": "2020-01-01T00:00:00Z",
            "ended_at": "2020-01-01T00:00:00Z",
            "outcome": None,
        }
    ],
    "started_at": "2020-01-01",
}


@dataclass(frozen=True)
class Asked:
    run: str
    call: str
    wait: str

    @property
    def path(self) -> str:
        return f"/v1/waits/{self.wait}/resolve"


async def working(rows: Rows, **values: Any) -> str:
    """A run of an agent that is declared."""
    if not await rows.execute("select name from perdure.agents where name = 'desk'"):
        await rows.agent("desk", DESK.definition() | {"version": DESK.version})
    return await rows.run(agent_version=DESK.version, **values)


async def ask(rows: Rows, tool: str = "refund", kind: str = "approval", **wait: Any) -> Asked:
    run = await working(rows, status="waiting", turns=1)
    call = await rows.call(
        run,
        tool=tool,
        state="waiting",
        arguments=ARGUMENTS,
        arguments_hash="h",
        replay="at_most_once",
        approval="always",
        **({} if kind == "approval" else BEGUN),
    )
    shown = {"call": call, "kind": kind, "arguments": ARGUMENTS, "arguments_hash": "h"}
    return Asked(run, call, await rows.wait(run, **shown | wait))
