"""Resolving waits: the resolution and the leg that goes on with it are one commit."""

from typing import Any

from app.domain.canonical import canonical_json
from app.errors import AlreadyResolved, NotFound, StaleArguments, WaitClosed
from app.services import views_waits
from app.services.cancels import Order, cancel_children
from app.services.context import Caller, Services, refuse_large
from app.store import waits


async def resolve(
    services: Services, wait: str, said: dict[str, Any], caller: Caller, on_behalf_of: str | None
) -> dict[str, Any]:
    """First resolution wins: the same again is answered with the first, another is refused."""
    refuse_large(said)
    arguments_hash = said.pop("arguments_hash", None)
    async with services.database.transaction() as transaction:
        answer = await waits.resolve(
            transaction.connection,
            wait,
            canonical_json(said),
            arguments_hash=arguments_hash,
            by=caller.actor,
            on_behalf_of=on_behalf_of,
            via=caller.channel,
        )
        if answer["leg"] is not None:
            await services.legs.enqueue(transaction, answer["run"], answer["leg"])
        if answer["cancelling"]:
            order = Order(caller.actor, "denied", compensate=True)
            await cancel_children(services, transaction, answer["run"], order)
    if answer["run"] is not None:
        services.notifier.tell(answer["run"])
    if answer["verdict"] == "missing":
        raise NotFound(f"There is no wait {wait}; GET /v1/waits lists them.")
    shown = await views_waits.get_wait(services, wait)
    match answer["verdict"]:
        case "other":
            raise AlreadyResolved(
                f"{shown['resolved_by']} has resolved this wait otherwise; the first one holds.",
                extra={"wait": shown},
            )
        case "stale":
            raise StaleArguments("These are not the arguments that are waiting; look again.")
        case "closed":
            raise WaitClosed(f"This wait is {shown['state']}; nothing can be resolved any more.")
        case _:
            return shown
