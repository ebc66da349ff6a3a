"""Callbacks of runs, and what was sent to them."""

from app.delivery.addresses import Refused, check
from app.errors import FieldError, Invalid, NotFound
from app.services.context import Callbacks, Services
from app.services.views_pages import Listing, instant, name
from app.services.views_runs import show
from app.services.views_shapes import Json, moment
from app.store import webhooks
from app.store.db import Connection, Row
from app.store.views_pages import youngest


def check_callback(callbacks: Callbacks, url: str) -> None:
    if not callbacks.are_signed:
        message = "cannot be told of anything, because PERDURE_WEBHOOK_SECRET is not set"
        problem = FieldError("callback", message)
        raise Invalid(f"`callback` {message}.", errors=[problem])
    try:
        check(url, allow_private=callbacks.may_be_private)
    except Refused as error:
        problem = FieldError("callback.url", str(error))
        raise Invalid(f"`callback.url` {error}.", errors=[problem]) from None


async def compose(connection: Connection, delivery: Row) -> Json:
    """The body of a webhook, with the run as it is now."""
    run = await show(connection, delivery["run"])
    said = {"type": delivery["type"], "timestamp": moment(delivery["at"])}
    return said | {"data": {"run": run}}


async def list_deliveries(services: Services, listing: Listing) -> Json:
    start = listing.start(instant, name)
    async with services.database.connection() as connection:
        found = await youngest(
            connection, webhooks.PAGES, listing.filters, start, listing.limit + 1
        )
    return listing.page(found, shape, lambda delivery: (delivery["created_at"], delivery["id"]))


async def redeliver(services: Services, delivery: str) -> Json:
    """Whatever became of it before; with the same id and the same body."""
    async with services.database.connection() as connection:
        await webhooks.redeliver(connection, delivery)
        found = await webhooks.get(connection, delivery)
    if found is None:
        raise NotFound(f"There is no delivery {delivery}; GET /v1/webhooks/deliveries lists them.")
    return shape(found)


def shape(delivery: Row) -> Json:
    is_pending = delivery["state"] == "pending"
    return {
        "id": delivery["id"],
        "run": delivery["run"],
        "seq": delivery["seq"],
        "type": delivery["type"],
        "url": delivery["url"],
        "state": delivery["state"],
        "attempts": delivery["attempts"],
        "next_attempt_at": moment(delivery["due_at"]) if is_pending else None,
        "last_status": delivery["last_status"],
        "last_error": delivery["last_error"],
        "last_attempt_at": moment(delivery["last_attempt_at"]),
        "delivered_at": moment(delivery["delivered_at"]),
        "created_at": moment(delivery["created_at"]),
    }
