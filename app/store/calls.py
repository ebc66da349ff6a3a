"""The ledger of tool calls: intent before, outcome after."""

from dataclasses import dataclass
from typing import Any

from app.domain.canonical import encode
from app.store.db import Connection, Row, row

_PLACE = "%(run)s, %(fence)s, %(call)s, %(attempt)s, %(worker)s"
_INTENT = "%(arguments)s::json, %(arguments_hash)s, %(replay)s, %(approval)s"
# Also sent by a sync transactional tool, over its own connection.
FINISH = f"""select perdure.finish_call({_PLACE}, {_INTENT},
    %(state)s, %(result)s, %(is_error)s, %(outcome)s) as verdict"""


@dataclass(frozen=True)
class Place:
    """Which attempt, of which call, by which execution. Every ledger write is checked against it."""

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


async def load(connection: Connection, run: str, turn: int, index: int) -> Row:
    """The call, what its run is about, and whether an unsettled call of its tool stands in the way."""
    found = await row(
        connection,
        """select c.*, r.agent, r.agent_version, r.session, r.root, r.status,
               exists (select from perdure.waits w where w.call = c.id and w.state = 'open') as held,
               allowed.id is not null as allowed, allowed.evidence as shown,
               exists (select from perdure.calls u where u.tool = c.tool and u.state = 'outcome_unknown'
                       and not u.skipped and u.id <> c.id
                       and (u.root = r.root or u.session = r.session)) as guarded
           from perdure.calls c join perdure.runs r on r.id = c.run
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
    return await _verdict(
        connection,
        f"select perdure.start_call({_PLACE}, {_INTENT}) as verdict",
        **_values(at, intent),
    )


@dataclass(frozen=True)
class Outcome:
    state: str
    result: object
    is_error: bool
    attempt_ended: str | None = None


async def finish(connection: Connection, at: Place, intent: Intent | None, outcome: Outcome) -> str:
    """'ok'; 'done' if it has ended before. `intent` is None for a call that never got that far."""
    return await _verdict(connection, FINISH, **finish_values(at, intent, outcome))


def finish_values(at: Place, intent: Intent | None, outcome: Outcome) -> dict[str, object]:
    return {
        **_values(at, intent),
        "state": outcome.state,
        "result": encode(outcome.result),
        "is_error": outcome.is_error,
        "outcome": outcome.attempt_ended,
    }


async def hold(
    connection: Connection,
    at: Place,
    intent: Intent,
    state: str,
    *,
    kind: str,
    question: str,
    evidence: object = None,
    seconds: float | None = None,
    outcome: str | None = None,
) -> str:
    """Opens the wait that the call is held by; `seconds` until it is due or expires."""
    return await _verdict(
        connection,
        f"""select perdure.hold_call({_PLACE}, {_INTENT}, %(state)s, %(kind)s, %(question)s, %(evidence)s,
            %(seconds)s::float8, %(outcome)s) as verdict""",
        **_values(at, intent),
        state=state,
        kind=kind,
        question=question,
        evidence=None if evidence is None else encode(evidence),
        seconds=seconds,
        outcome=outcome,
    )


async def supersede_approval(connection: Connection, at: Place) -> str:
    return await _verdict(
        connection,
        "select perdure.supersede_approval(%(run)s, %(fence)s, %(call)s) as verdict",
        run=at.run,
        fence=at.fence,
        call=at.call,
    )


async def settle(connection: Connection, call: str, settlement: str, by: str) -> Row:
    found = await row(
        connection,
        "select * from perdure.settle_call(%(call)s, %(settlement)s, %(by)s)",
        call=call,
        settlement=settlement,
        by=by,
    )
    assert found is not None
    return found



def _values(at: Place, intent: Intent | None) -> dict[str, object]:
    return {
        "run": at.run,
        "fence": at.fence,
        "call": at.call,
        "attempt": at.attempt,
        "worker": at.worker,
        "arguments": None if intent is None else encode(intent.arguments),
        "arguments_hash": None if intent is None else intent.arguments_hash,
        "replay": None if intent is None else intent.replay,
        "approval": None if intent is None else intent.approval,
    }


async def _verdict(connection: Connection, statement: Any, **values: object) -> str:
    found = await row(connection, statement, **values)
    assert found is not None
    return str(found["verdict"])
