"""Going on with a run that was stopped, and branching off from one."""

from dataclasses import dataclass
from typing import Any

from app.domain.ids import new_message_id, new_run_id, new_session_id
from app.domain.limits import InvalidLimit, Limits
from app.errors import FieldError, Invalid, NotFound, NotResumable, RunEnded, TargetBusy
from app.services.context import Caller, Services
from app.services.runs import Submitted, replayed
from app.store import events, idempotency, messages, runs, sessions
from app.store.db import Connection, Row


async def resume(services: Services, run: str, asked: dict[str, Any], caller: Caller) -> None:
    """Goes on from where it was; `asked`: limits over those it was stopped by."""
    async with services.database.transaction() as transaction:
        connection = transaction.connection
        await sessions.lock_of(connection, run)
        found = await runs.lock(connection, run)
        if found is None:
            raise NotFound(f"There is no run {run}; GET /v1/runs lists them.")
        limits = _raised(found["limits"], asked)
        answer = await runs.reopen(connection, run, limits, caller.actor)
        if answer["verdict"] == "busy":
            raise _busy(await sessions.active(connection, found["session"], found["target"]))
        if answer["verdict"] != "reopened":
            raise _refusal(run, answer["verdict"])
        await services.legs.enqueue(transaction, run, answer["leg"])
    services.notifier.tell(run)


def _raised(limits: dict[str, Any], asked: dict[str, Any]) -> dict[str, Any]:
    try:
        return Limits.from_json(limits).merged(asked).to_json()
    except InvalidLimit as error:
        problem = FieldError(f"limits.{error.field}", error.message)
        raise Invalid("A limit cannot be kept.", errors=[problem]) from error


def _busy(active: list[Row]) -> Exception:
    other = active[0]["id"]
    return TargetBusy(
        f"Run {other} is active on this session or target; resume when it has ended, or cancel it.",
        extra={"run": other},
    )


def _refusal(run: str, verdict: str) -> Exception:
    match verdict:
        case "active":
            return NotResumable(f"Run {run} has not ended; there is nothing to resume.")
        case "taken":
            return RunEnded(f"The parent of run {run} has gone on with what it came to.")
        case "unfit":
            return NotResumable(
                f"Run {run} was not stopped by a limit, by its model or as a dead letter; "
                "submit a new run to its session, or fork it."
            )
        case "deadline":
            return NotResumable(f"The deadline of run {run} has passed; fork it, without one.")
        case reached:
            limit = {"limit_cost": "cost_usd"}.get(reached, reached.removeprefix("limit_"))
            return NotResumable(
                f"The limit {limit!r} is used up, its own or that of a run above it; "
                "give a higher one in `limits`."
            )


@dataclass(frozen=True)
class Branch:
    """`input`: text or blocks that the new run hears at its next turn."""

    source: str
    turn: int
    input: Any
    trace_id: str


async def fork(
    services: Services, branch: Branch, caller: Caller, key: str | None, fingerprint: str
) -> Submitted:
    """A new run that shares the first turns of another; once per key."""
    run = new_run_id()
    async with services.database.transaction() as transaction:
        connection = transaction.connection
        if key is not None:
            first = await idempotency.spend(connection, caller.actor, key, fingerprint, run)
            if first is not None:
                return replayed(first, fingerprint)
        await _branch_off(connection, branch, run, caller)
        if branch.input is not None:
            await _say(connection, run, branch.input, caller)
        await services.legs.enqueue(transaction, run, 1)
    services.notifier.tell(run)
    return Submitted(run)


_UNFIT = {
    "no_turn": "is no finished turn of this run",
    "unfinished": "has calls that have not ended",
}


async def _branch_off(connection: Connection, branch: Branch, run: str, caller: Caller) -> None:
    source, session = branch.source, new_session_id()
    await sessions.make(connection, session, None)
    verdict = await runs.fork(
        connection, source, branch.turn, run, session, branch.trace_id, caller.actor
    )
    if verdict == "missing":
        raise NotFound(f"There is no run {source}; GET /v1/runs lists them.")
    if verdict != "forked":
        problem = FieldError("turn", _UNFIT[verdict])
        raise Invalid(f"Run {source} cannot be forked there.", errors=[problem])


async def _say(connection: Connection, run: str, said: Any, caller: Caller) -> None:  # noqa: ANN401
    blocks = None if isinstance(said, str) else said
    text = said if blocks is None else "\n".join(_text(block) for block in blocks)
    message = await messages.insert(connection, new_message_id(), run, text, blocks)
    await events.tell(connection, run, "message.queued", message=message["id"], by=caller.actor)


def _text(block: dict[str, Any]) -> str:
    """Of another type a block may have a `text` that is none."""
    return str(block["text"]) if block["type"] == "text" else ""
