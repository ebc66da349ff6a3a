"""Waits as JSON."""

from app.errors import NotFound
from app.services.context import Services
from app.services.views_pages import Listing, instant, name
from app.services.views_shapes import Json, moment
from app.store import views_waits
from app.store.db import Row
from app.store.views_pages import youngest


async def get_wait(services: Services, wait: str) -> Json:
    async with services.database.connection() as connection:
        found = await views_waits.get(connection, wait)
    if found is None:
        raise NotFound(f"There is no wait {wait}; GET /v1/waits lists them.")
    return shape(found)


async def list_waits(services: Services, listing: Listing) -> Json:
    start = listing.start(instant, name)
    async with services.database.connection() as connection:
        found = await youngest(
            connection, views_waits.PAGES, listing.filters, start, listing.limit + 1
        )
    return listing.page(found, shape, lambda wait: (wait["created_at"], wait["id"]))


def shape(wait: Row) -> Json:
    return {
        "id": wait["id"],
        "run": wait["run"],
        "kind": wait["kind"],
        "state": wait["state"],
        "call": wait["call"],
        "tool": wait["tool"],
        "question": wait["question"],
        "arguments": wait["arguments"],
        "arguments_hash": wait["arguments_hash"],
        "evidence": wait["evidence"],
        "deadline": moment(wait["deadline"]),
        "resolution": wait["resolution"],
        "rule": _rule(wait),
        "resolved_by": wait["resolved_by"],
        "on_behalf_of": wait["on_behalf_of"],
        "resolved_via": wait["resolved_via"],
        "resolved_at": moment(wait["resolved_at"]),
        "created_at": moment(wait["created_at"]),
    }


def _rule(wait: Row) -> str | None:
    """The standing rule that was made with the resolution, or that has answered."""
    answered = (wait["resolution"] or {}).get("rule")
    return answered if isinstance(answered, str) else wait["made_rule"]
