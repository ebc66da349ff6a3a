"""`perdure verify` can fail: each fault that is planted is found, and its author is named."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from app.cli.verify.campaign import Choice
from tests.support.database import Cluster
from tests.support.faults import sound, tools
from tests.support.sampling import FULL
from tests.support.scripts import say, use
from tests.support.verifying import found, told, verify

TOOLS, ENGINE = "tests.support.faults.tools", "tests.support.faults.engine"
SOUND = "tests.support.faults.sound"


@dataclass(frozen=True)
class Fault:
    """A planted fault: where it shows, as what, and who is to be blamed for it.

    `needs_crash`: without one there is nothing to see."""

    steps: tuple[Mapping[str, Any], ...]
    only: str
    invariant: str
    blamed: str
    agents: str = ENGINE
    tables: str = "notes.sql"
    needs_crash: bool = True

    @property
    def agent(self) -> str:
        return "faulty" if self.agents == TOOLS else "sound"


def in_tool(name: str, only: str, invariant: str, blamed: str = "", **arguments: str) -> Fault:
    steps = (use(name, **(arguments or {"ref": "a"})), say("done"))
    return Fault(steps, only, invariant, blamed or name, TOOLS)


IDEMPOTENT, ONCE = "effects by policy: idempotent", "effects by policy: at_most_once"
PAID = "a finished model call is never paid for again"
AFTER_POST = "POST /orders*, kill after"
TOOL_FAULTS = {
    "a fresh key for each attempt": in_tool("fresh_key", AFTER_POST, IDEMPOTENT),
    "an effect in a read": in_tool("effect_in_a_read", AFTER_POST, "effects by policy: read_only"),
    "an effect in a transaction": in_tool(
        "effect_in_a_transaction", AFTER_POST, "effects by policy: transactional"
    ),
    "a connection of its own": in_tool(
        "own_connection", "finish_call 1/0, kill before", "rows exactly once", text="a"
    ),
    "memory in a global": Fault(
        (use("remember", ref="a"), use("recall"), say("done")),
        "journal perdure.tool, kill after",
        "a call ends as it would without a crash",
        "recall",
        TOOLS,
    ),
    "a hook that claims another's effect": Fault(
        (use("claims_anothers", ref="a"), use("claims_anothers", ref="a"), say("done")),
        "POST /orders by claims_anothers 2/0, kill before",
        ONCE,
        "claims_anothers (reconcile)",
        TOOLS,
    ),
    "a hook that denies": in_tool("denies", AFTER_POST, ONCE, "denies (reconcile)"),
}
BUY_ONCE = (use("buy_once", ref="a"), say("done"))
ENGINE_FAULTS = {
    "effect_before_intent": Fault(BUY_ONCE, AFTER_POST, ONCE, "buy_once"),
    "transaction_and_record_apart": Fault(
        (use("note", text="a"), say("done")),
        "finish_call 1/0, kill before",
        "rows exactly once",
        "note",
    ),
    "model_call_paid_again": Fault(
        (say("done"),), "journal perdure.model, kill before", PAID, "Perdure"
    ),
    "result_dropped": Fault(
        BUY_ONCE, "journal perdure.tool, kill after", "valid pairing", "Perdure"
    ),
    "event_apart": Fault(
        BUY_ONCE,
        "finish_call 1/0, kill after",
        "events are numbered without gaps",
        "buy_once",
        tables="event_apart.sql",
    ),
    "decision_answered_first": Fault(
        (use("buy", ref="a"), say("done")),
        "api: resolve_wait*, kill before",
        "what was answered with 2xx is stored",
        "Perdure",
        needs_crash=False,
    ),
    "no_fence": Fault(
        BUY_ONCE,
        "begin_turn turn 1, kill before",
        "a dead worker changes nothing any more",
        "Perdure",
        tables="no_fence.sql",
    ),
}
SAMPLE = ("a fresh key for each attempt", "a hook that denies", "effect_before_intent")
ALL = TOOL_FAULTS | ENGINE_FAULTS


@pytest.mark.parametrize("name", ALL if FULL else SAMPLE)
def test_a_planted_fault_is_found_and_blamed(cluster: Cluster, tmp_path: Path, name: str) -> None:
    fault = ALL[name]
    run = {"input": "Go.", "model": fault.steps}

    report = verify(
        cluster,
        tmp_path,
        fault.agent,
        run,
        agents=fault.agents,
        choice=Choice(only=fault.only),
        tables=fault.tables,
        fault=name if name in ENGINE_FAULTS else "",
    )

    blame = (fault.invariant, fault.blamed, source_of(fault.blamed))
    assert blame in found(report), told(report)
    assert [row.verdict == "OK" for row in report.rows] == [fault.needs_crash, False], told(report)


def source_of(blamed: str) -> str:
    """The file and line of a tool's function, or of its hook."""
    if blamed == "Perdure":
        return ""
    name, _, hook = blamed.partition(" (")
    tool = tools.desk.tool(name) or sound.desk.tool(name)
    assert tool is not None
    function = tool.signature.function if not hook else getattr(tool, hook[:-1])
    return f"{function.__code__.co_filename}:{function.__code__.co_firstlineno}"
