"""The ledger of tool calls: intent before, outcome after."""

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from app.domain.canonical import encode
from app.store.db import Connection, Row, call, row, verdict


@dataclass(frozen=True)
class Place:
    """Which attempt of which call, by which execution: each ledger write is checked against it."""

    run: str
    fence: int
    call: str
    worker: str
    attempt: int


@dataclass(frozen=True)
class Intent:
    """What is decided once, at proposal, and recorded with the call."""

    arguments: dict[str, Any]
    arguments_hash: str
    replay: str
    approval: str


@dataclass(frozen=True)
class Outcome:
    """`attempt_ended`: how the attempt did, where there was one; it `took` so many seconds."""

    state: str
    result: object
    is_error: bool
    attempt_ended: str | None = None
    took: float = 0.0


@dataclass(frozen=True)
class Hold:
    """The wait that a call is to be held by; due or expired after `seconds`, or at `until`.

    `rule`: the standing rule that answers it at once; `supersedes`: the approval that it replaces.
    """

    state: str
    kind: str
    question: str
    evidence: object = None
    seconds: float | None = None
    until: datetime | None = None
    attempt_ended: str | None = None
    rule: str | None = None
    supersedes: str | None = None
    took: float = 0.0


async def load(connection: Connection, run: str, turn: int, index: int) -> Row:
    """The call, what its run is about, and whether an unsettled call of its tool is in the way."""
    found = await row(
        connection,
        """select c.*, r.agent, r.agent_version, r.session, r.root, r.status,
               allowed.id as allowed, allowed.evidence as shown,
               done.turn as done_turn, done.index as done_index, done.result as done_result,
               exists (select from perdure.waits w
                       where w.call = c.id and w.state = 'open') as held,
               exists (select from perdure.calls u
                       where u.tool = c.tool and u.id <> c.id
                         and (u.state = 'outcome_unknown' and not u.skipped
                              or u.state = 'started' and u.replay = 'at_most_once'
                                 and u.run = c.run and u.fence < r.fence)
                         and (u.root = r.root or u.session = r.session)) as guarded
           from perdure.calls c join perdure.runs r on r.id = c.run
           left join perdure.calls done on done.id = c.compensates
           left join perdure.waits allowed
               on allowed.call = c.id and allowed.kind = 'approval' and allowed.state = 'resolved'
           where c.run = %(run)s and c.turn = %(turn)s and c.index = %(index)s""",
        run=run,
        turn=turn,
        index=index,
    )
    assert found is not None
    return found


async def start(connection: Connection, at: Place, intent: Intent) -> str:
    return await verdict(connection, "start_call", **asdict(at), **_recorded(intent))


async def finish(connection: Connection, at: Place, intent: Intent | None, end: Outcome) -> str:
    """'ok'; 'done' if it has ended before; 'late' for `settle_late`.

    No `intent`: the call never got that far."""
    return await verdict(connection, "finish_call", **finish_values(at, intent, end))


async def settle_late(connection: Connection, at: Place, result: object) -> Row:
    """{verdict, leg}; the leg is to be enqueued in the same transaction."""
    place = {name: value for name, value in asdict(at).items() if name != "worker"}
    return await call(connection, "settle_late", **place, result=encode(result))


def finish_values(at: Place, intent: Intent | None, end: Outcome) -> dict[str, object]:
    """Also for a sync transactional tool, which sends them over its own connection."""
    return {
        **asdict(at),
        **_recorded(intent),
        "state": end.state,
        "result": encode(end.result),
        "is_error": end.is_error,
        "outcome": end.attempt_ended,
        "took": end.took,
    }


async def hold(connection: Connection, at: Place, intent: Intent, hold: Hold) -> str:
    """'held'; 'ok' if it was before; 'cancel' where the run asks for nothing more."""
    return await verdict(
        connection,
        "hold_call",
        **asdict(at),
        **_recorded(intent),
        state=hold.state,
        kind=hold.kind,
        question=hold.question,
        evidence=None if hold.evidence is None else encode(hold.evidence),
        seconds=hold.seconds,
        until=hold.until,
        outcome=hold.attempt_ended,
        rule=hold.rule,
        supersedes=hold.supersedes,
        took=hold.took,
    )


async def next_compensation(connection: Connection, run: str, fence: int) -> Row:
    """{verdict, turn, index}: the call that undoes the next one; no turn where nothing is left."""
    return await call(connection, "next_compensation", run=run, fence=fence)


async def settle(connection: Connection, settled: str, settlement: str, by: str) -> Row:
    """{verdict, run}. `settlement` is canonical JSON."""
    return await call(connection, "settle_call", call=settled, settlement=settlement, by=by)


def _recorded(intent: Intent | None) -> dict[str, object]:
    return {
        "arguments": None if intent is None else encode(intent.arguments),
        "arguments_hash": None if intent is None else intent.arguments_hash,
        "replay": None if intent is None else intent.replay,
        "approval": None if intent is None else intent.approval,
    }
