"""Submitting runs. One function, one transaction."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from app.domain.canonical import encode
from app.domain.ids import new_run_id, new_session_id
from app.domain.limits import InvalidLimit, Limits
from app.errors import (
    AgentNotFound,
    FieldError,
    IdempotencyKeyReused,
    Invalid,
    NotFound,
    QueueFull,
    TargetBusy,
)
from app.services.cancels import Order, cancel_tree
from app.services.context import Caller, Services
from app.services.webhooks import check_callback
from app.store import agents, events, idempotency, runs, sessions
from app.store.db import Connection, Row, Transaction


@dataclass(frozen=True)
class Submission:
    agent: str
    input: str | list[dict[str, Any]]
    session: str | None
    target: str | None
    on_busy: str
    limits: dict[str, Any]
    priority: int
    queue_key: str | None
    deadline: datetime | None
    metadata: dict[str, str]
    callback: str | None
    trace_id: str


@dataclass(frozen=True)
class Submitted:
    run: str
    replayed: bool = False
    existing: bool = False


async def submit(
    services: Services, submission: Submission, caller: Caller, key: str | None, fingerprint: str
) -> Submitted:
    """Accepts a run once per key, and at most one active run for each session and target."""
    run = new_run_id()
    async with services.database.transaction() as transaction:
        connection = transaction.connection
        if key is not None:
            first = await idempotency.spend(connection, caller.actor, key, fingerprint, run)
            if first is not None:
                return replayed(first, fingerprint)
        if submission.callback is not None:
            check_callback(services.callbacks, submission.callback)
        agent = await agents.find(connection, submission.agent)
        if agent is None:
            raise AgentNotFound(
                f"There is no agent {submission.agent!r}; GET /v1/agents lists those there are."
            )
        session = submission.session or new_session_id()
        active = None
        while active is None:
            await sessions.make(connection, session, submission.target)
            active = await _lock_all(connection, session, submission)
        existing = await _make_way(services, transaction, submission, active, caller)
        if existing is not None:
            if key is not None:
                await idempotency.point(connection, caller.actor, key, existing)
            return Submitted(existing, existing=True)
        queue_key = submission.queue_key or caller.actor
        if await runs.is_full(connection, queue_key, services.queue_limit):
            raise QueueFull(
                f"{services.queue_limit} runs are queued under the queue key {queue_key!r}, and no "
                "more may be; nothing was stored. Send the request again later."
            )
        held = bool(await sessions.active(connection, session, submission.target))
        await _insert(connection, run, session, queue_key, submission, agent, held=held)
        if not held:
            await services.legs.enqueue(transaction, run, 1)
    services.notifier.tell(run)
    return Submitted(run)


async def _lock_all(
    connection: Connection, session: str, submission: Submission
) -> list[Row] | None:
    """The runs in the way, with all that they and this one work on locked.

    None where the session or the target was old, and has just been removed.
    """
    target = submission.target
    superseded: list[Row] = []
    if submission.on_busy == "supersede":
        superseded = await sessions.active(connection, session, target)
    above = [run["id"] for run in superseded]
    if session not in await sessions.lock_below(connection, *above, session=session):
        return None
    found = True
    for name in sorted({target, *(run["target"] for run in superseded)} - {None}):
        found = await sessions.lock_target(connection, name) and found
    for name in sorted({run["parent"] for run in superseded} - {None}):
        await runs.lock(connection, name)
    return await sessions.active(connection, session, target) if found else None


def replayed(first: Row, fingerprint: str) -> Submitted:
    """The answer to a request whose key was spent on `first`."""
    if first["fingerprint"] != fingerprint:
        raise IdempotencyKeyReused(
            "This Idempotency-Key has been used for another request; use a new key for a new one."
        )
    if first["run"] is None:
        raise NotFound(
            "The run of this request has ended and been removed; use a new key for a new one."
        )
    return Submitted(first["run"], replayed=True)


async def _make_way(
    services: Services,
    transaction: Transaction,
    submission: Submission,
    active: list[Row],
    caller: Caller,
) -> str | None:
    """Does what `on_busy` says to runs that hold the session or target; answers one to return."""
    if not active or submission.on_busy == "queue":
        return None
    if submission.on_busy == "return_existing":
        return str(active[0]["id"])
    if submission.on_busy == "reject":
        raise TargetBusy(
            f"Run {active[0]['id']} is active on this session or target; "
            "wait for it, cancel it, or submit with another on_busy.",
            extra={"run": active[0]["id"]},
        )
    for run in active:
        await cancel_tree(services, transaction, run["id"], Order(caller.actor, "superseded"))
    return None


async def _insert(
    connection: Connection,
    run: str,
    session: str,
    queue_key: str,
    submission: Submission,
    agent: Row,
    *,
    held: bool,
) -> None:
    await runs.insert(
        connection,
        {
            "id": run,
            "agent": submission.agent,
            "agent_version": agent["version"],
            "session": session,
            "target": submission.target,
            "input": encode(submission.input),
            "metadata": encode(submission.metadata),
            "limits": encode(_limits(agent, submission.limits)),
            "priority": submission.priority,
            "queue_key": queue_key,
            "deadline": submission.deadline,
            "callback": submission.callback,
            "trace_id": submission.trace_id,
        },
        held=held,
    )
    await events.tell(
        connection,
        run,
        "run.queued",
        agent=submission.agent,
        agent_version=agent["version"],
        held=held,
    )


def _limits(agent: Row, asked: dict[str, Any]) -> dict[str, Any]:
    try:
        return Limits.from_json(agent["definition"]["limits"]).merged(asked).to_json()
    except InvalidLimit as error:
        problem = FieldError(f"limits.{error.field}", error.message)
        raise Invalid("A limit cannot be kept.", errors=[problem]) from error
