"""Runs as JSON."""

from collections.abc import Collection
from datetime import datetime
from decimal import Decimal
from typing import Any

from app.domain.ids import idempotency_key
from app.errors import NotFound
from app.services.context import Caller, Services
from app.services.views_pages import Listing, instant, name
from app.services.views_shapes import Json, moment, moment_of_json
from app.store import views_fleet, views_runs
from app.store.db import Connection, Row
from app.store.views_pages import youngest

LIMITS = ("turns", "tokens", "cost_usd", "seconds", "calls")
# What stands or falls with the outcome's commit, or has no effect at all.
LEAVES_NOTHING = frozenset({"read_only", "transactional"})

Agents = list[set[str]]


async def get_run(services: Services, run: str) -> Json:
    async with services.database.connection() as connection:
        return await show(connection, run)


async def show(connection: Connection, run: str) -> Json:
    found = await views_runs.get(connection, run)
    if found is None:
        raise missing_run(run)
    return shape(found, await _live_agents(connection, [found]))


async def list_runs(services: Services, listing: Listing) -> Json:
    start = listing.start(instant, name)
    async with services.database.connection() as connection:
        found = await youngest(
            connection, views_runs.PAGES, listing.filters, start, listing.limit + 1
        )
        live = await _live_agents(connection, found)
    return listing.page(
        found, lambda run: shape(run, live), lambda run: (run["created_at"], run["id"])
    )


async def has_passed(
    services: Services, deadline: datetime, caller: Caller, key: str | None
) -> bool:
    """Whether it is too late to accept a new run with this deadline."""
    async with services.database.connection() as connection:
        return await views_runs.has_passed(connection, deadline, caller.actor, key)


def missing_run(run: str) -> NotFound:
    return NotFound(f"There is no run {run}; GET /v1/runs lists them.")


async def _live_agents(connection: Connection, runs: Collection[Row]) -> Agents:
    if not any(_should_move(run) for run in runs):
        return []
    return await views_fleet.live_agents(connection)


def shape(run: Row, live: Agents) -> Json:
    return {
        "id": run["id"],
        "agent": run["agent"],
        "agent_version": run["agent_version"],
        "session": run["session"],
        "parent": run["parent"],
        "root": run["root"],
        "children": run["children"],
        "forked_from": run["forked_from"],
        "status": run["status"],
        "reason": run["reason"],
        "stalled": _stalled(run, live),
        "waiting_for": [_waiting_for(wait) for wait in run["open_waits"] or ()],
        "input": run["input"],
        "output": run["output"],
        "error": run["error"],
        "target": run["target"],
        "metadata": run["metadata"],
        "priority": run["priority"],
        "queue_key": run["queue_key"],
        "deadline": moment(run["deadline"]),
        **_progress(run),
        "trace_id": run["trace_id"],
        "effects": [_effect(call) for call in run["started_calls"] or ()],
        "created_at": moment(run["created_at"]),
        "started_at": moment(run["started_at"]),
        "finished_at": moment(run["finished_at"]),
    }


def _progress(run: Row) -> Json:
    return {
        "turns": run["turns"],
        "leg": run["legs_started"],
        "attempt": run["attempt"],
        "worker": run["owner"] if run["status"] in ("running", "cancelling") else None,
        "usage": {
            "model_calls": run["model_calls"],
            "repaid_model_calls": run["repaid_model_calls"],
            "input_tokens": run["input_tokens"],
            "output_tokens": run["output_tokens"],
            "cache_read_tokens": run["cache_read_tokens"],
            "cache_write_tokens": run["cache_write_tokens"],
            "cost_usd": f"{run['cost_usd']:.4f}",
        },
        "limits": {limit: run["limits"].get(limit) for limit in LIMITS},
        "limits_left": _limits_left(run),
    }


def _limits_left(run: Row) -> Json:
    """Of what a run may use, all that was started below it has its share."""
    given = {limit: run["limits"].get(limit) for limit in LIMITS}
    return {
        limit: _left(limit, most, run[f"used_{limit}"])
        for limit, most in given.items()
        if most is not None
    }


def _left(limit: str, most: Any, used: Any) -> Any:  # noqa: ANN401 - int, float or decimal text
    match limit:
        case "cost_usd":
            return f"{max(Decimal(most) - used, Decimal(0)):.4f}"
        case "seconds":
            return round(max(most - used, 0), 3)
        case _:
            return max(most - used, 0)


def _should_move(run: Row) -> bool:
    return run["status"] in ("queued", "running", "cancelling") and not run["held"]


def _stalled(run: Row, live: Agents) -> str | None:
    if not _should_move(run):
        return None
    if not live:
        return "no live worker"
    if not any(run["agent"] in agents for agents in live):
        return f"no worker has agent {run['agent']}"
    return None


def _waiting_for(wait: Json) -> Json:
    turn, index = wait.pop("turn"), wait.pop("index")
    key = None if wait["call"] is None else idempotency_key(wait["run"], turn, index)
    return wait | {"idempotency_key": key, "deadline": moment_of_json(wait["deadline"])}


def _effect(call: Json) -> Json:
    return {"call": call["call"], "tool": call["tool"], "effect": _effect_of(call)}


def _effect_of(call: Json) -> str:
    effect, undo = _left_by(call), call["undo"]
    if effect != "confirmed" or undo is None:
        return effect
    match _left_by(undo):
        case "confirmed":
            return "compensated"
        case "absent":
            return "confirmed"
        case _:
            return "unknown"


def _left_by(call: Json) -> str:
    match call["state"]:
        case "succeeded":
            return "confirmed"
        case "failed" | "denied" | "expired":
            return "absent"
        case "cancelled" | "proposed" | "waiting" | "ready":
            is_known = call["replay"] in LEAVES_NOTHING or not call["acted"]
            return "absent" if is_known else "unknown"
        case _:
            return "unknown"
