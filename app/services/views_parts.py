"""Turns, calls, events and messages of a run as JSON."""

from app.domain.ids import idempotency_key
from app.errors import FieldError, Invalid, NotFound
from app.services.context import Services
from app.services.views_pages import Listing, instant, name, number
from app.services.views_runs import missing_run
from app.services.views_shapes import Json, history, moment
from app.store import views_calls, views_parts, views_runs
from app.store.db import Connection, Row
from app.store.views_pages import youngest


async def list_turns(services: Services, run: str, listing: Listing) -> Json:
    (after,) = listing.start(number) or (0,)
    async with services.database.connection() as connection:
        await _last_event(connection, run)
        found = await views_parts.turns(connection, run, after, listing.limit + 1)
    return listing.page(found, shape_turn, lambda turn: (turn["number"],))


async def list_calls(services: Services, run: str, listing: Listing) -> Json:
    turn, index = listing.start(number, number) or (0, 0)
    async with services.database.connection() as connection:
        await _last_event(connection, run)
        found = await views_parts.calls(connection, run, (turn, index), listing.limit + 1)
    return listing.page(found, shape_call, lambda call: (call["turn"], call["index"]))


async def list_messages(services: Services, run: str, listing: Listing) -> Json:
    (after,) = listing.start(number) or (0,)
    async with services.database.connection() as connection:
        await _last_event(connection, run)
        found = await views_parts.messages(connection, run, after, listing.limit + 1)
    return listing.page(found, shape_message, lambda message: (message["place"],))


async def list_events(services: Services, run: str, after: int, limit: int) -> Json:
    """Here a cursor is the number of the last event seen, so that it also serves a stream."""
    async with services.database.connection() as connection:
        await _check_place(connection, run, after, "after")
        found = await views_parts.events(connection, run, after, limit + 1)
    shown = found[:limit]
    return {
        "data": [shape_event(event) for event in shown],
        "next": shown[-1]["seq"] if len(found) > limit else None,
    }


async def check_place(services: Services, run: str, after: int, field: str) -> None:
    """That a stream can begin there; `field`: where the client has said so."""
    async with services.database.connection() as connection:
        await _check_place(connection, run, after, field)


async def turns_over(services: Services, run: str) -> int:
    """How many turns the model has finished."""
    async with services.database.connection() as connection:
        return await views_parts.turns_over(connection, run)


async def list_unknown_calls(services: Services, listing: Listing) -> Json:
    """Of all runs, those whose outcome is unknown and that nobody has settled or skipped."""
    start = listing.start(instant, name)
    async with services.database.connection() as connection:
        found = await youngest(
            connection, views_calls.PAGES, listing.filters, start, listing.limit + 1
        )
    return listing.page(found, shape_call, lambda call: (call["created_at"], call["id"]))


async def get_call(services: Services, call: str) -> Json:
    async with services.database.connection() as connection:
        found = await views_parts.call(connection, call)
    if found is None:
        raise NotFound(f"There is no call {call}; GET /v1/runs/{{id}}/calls lists those of a run.")
    return shape_call(found)


async def _check_place(connection: Connection, run: str, after: int, field: str) -> None:
    last = await _last_event(connection, run)
    if after > last:
        message = f"is beyond the log, whose last event is {last}"
        raise Invalid(f"`{field}` {message}.", errors=[FieldError(field, message)])


async def _last_event(connection: Connection, run: str) -> int:
    last = await views_runs.seq(connection, run)
    if last is None:
        raise missing_run(run)
    return last


def shape_turn(turn: Row) -> Json:
    return {
        "run": turn["run"],
        "number": turn["number"],
        "model": turn["model"],
        "stop_reason": turn["stop_reason"],
        "content": turn["content"],
        "usage": turn["usage"],
        "prompt_hash": turn["prompt_hash"],
        "tools_hash": turn["tools_hash"],
        "attempts": turn["attempts"],
        "worker": turn["worker"],
        "history": history(turn["history"]),
        "started_at": moment(turn["started_at"]),
        "finished_at": moment(turn["finished_at"]),
    }


def shape_call(call: Row) -> Json:
    final = call["arguments"]
    return {
        "id": call["id"],
        "run": call["run"],
        "turn": call["turn"],
        "index": call["index"],
        "provider_id": call["provider_id"],
        "tool": call["tool"],
        "arguments": call["proposed"] if final is None else final,
        "arguments_hash": call["arguments_hash"],
        "replay": call["replay"],
        "approval": call["approval"],
        "state": call["state"],
        "attempts": call["attempts"],
        # A fork's copy was made under the key of the run that it was copied from.
        "idempotency_key": idempotency_key(
            call["origin"] or call["run"], call["turn"], call["index"]
        ),
        "compensates": call["compensates"],
        "result": call["result"],
        "is_error": call["is_error"],
        "worker": call["worker"],
        "history": history(call["history"]),
        "created_at": moment(call["created_at"]),
        "started_at": moment(call["started_at"]),
        "finished_at": moment(call["finished_at"]),
    }


def shape_event(event: Row) -> Json:
    return {
        "seq": event["seq"],
        "run": event["run"],
        "type": event["type"],
        "data": event["data"],
        "at": moment(event["at"]),
    }


def shape_message(message: Row) -> Json:
    return {
        "id": message["id"],
        "run": message["run"],
        "text": message["text"],
        "state": message["state"],
        # A turn may have taken a message that it then did not deliver.
        "turn": message["turn"] if message["state"] == "delivered" else None,
        "created_at": moment(message["created_at"]),
    }
