"""Settling calls whose outcome nobody knew."""

from typing import Any

from app.domain.canonical import canonical_json
from app.errors import AlreadyResolved, NotFound
from app.services import views_parts
from app.services.context import Caller, Services, refuse_large
from app.store import calls


async def settle(
    services: Services, call: str, said: dict[str, Any], caller: Caller
) -> dict[str, Any]:
    """Changes the ledger and lifts the guard on the tool; starts no attempt."""
    refuse_large(said)
    async with services.database.transaction() as transaction:
        answer = await calls.settle(
            transaction.connection, call, canonical_json(said), caller.actor
        )
    match answer["verdict"]:
        case "missing":
            raise NotFound(f"There is no call {call}.")
        case "held":
            raise AlreadyResolved("An open wait asks about this call; resolve that one.")
        case "other":
            raise AlreadyResolved(
                "The outcome of this call is known, or has been settled otherwise."
            )
        case _:
            services.notifier.tell(answer["run"])
            return await views_parts.get_call(services, call)
