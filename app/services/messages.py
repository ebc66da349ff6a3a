"""Talking to a run under way."""

from typing import Any

from app.domain.ids import new_message_id
from app.errors import MessageDelivered, NotFound, RunEnded
from app.services.context import Caller, Services
from app.services.views_parts import shape_message
from app.store import events, messages, runs


async def send(services: Services, run: str, text: str, caller: Caller) -> dict[str, Any]:
    """Accepted under the run's lock, so that a run never ends with a message it has not seen."""
    async with services.database.transaction() as transaction:
        connection = transaction.connection
        found = await runs.lock(connection, run)
        if found is None:
            raise NotFound(f"There is no run {run}.")
        if found["finished"] or found["status"] == "cancelling":
            raise RunEnded(f"Run {run} has ended or is ending; it will hear nothing more.")
        message = await messages.insert(connection, new_message_id(), run, text)
        await events.tell(connection, run, "message.queued", message=message["id"], by=caller.actor)
    services.notifier.tell(run)
    return shape_message(message)


async def withdraw(services: Services, run: str, message: str) -> dict[str, Any]:
    """Takes back what has not gone to the model. Answers the message as it was."""
    async with services.database.transaction() as transaction:
        connection = transaction.connection
        await runs.lock(connection, run)
        found = await messages.find(connection, run, message)
        if found is None:
            raise NotFound(f"Run {run} has no message {message}.")
        if found["turn"] is not None:
            raise MessageDelivered("The message is on its way to the model or has reached it.")
        await messages.delete(connection, message)
    return shape_message(found)
