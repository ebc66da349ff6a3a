"""Standing rules as JSON."""

from app.errors import NotFound
from app.services.context import Services
from app.services.views_pages import Listing, instant, name
from app.services.views_shapes import Json, moment
from app.store import views_rules
from app.store.db import Row
from app.store.views_pages import youngest


async def get_rule(services: Services, rule: str) -> Json:
    async with services.database.connection() as connection:
        found = await views_rules.get(connection, rule)
    if found is None:
        raise NotFound(f"There is no rule {rule}; GET /v1/rules lists them.")
    return shape(found)


async def list_rules(services: Services, listing: Listing) -> Json:
    start = listing.start(instant, name)
    async with services.database.connection() as connection:
        found = await youngest(
            connection, views_rules.PAGES, listing.filters, start, listing.limit + 1
        )
    return listing.page(found, shape, lambda rule: (rule["created_at"], rule["id"]))


def shape(rule: Row) -> Json:
    return {
        "id": rule["id"],
        "scope": rule["scope"],
        "agent": rule["agent"],
        "session": rule["session"],
        "run": rule["run"],
        "tool": rule["tool"],
        "when": rule["conditions"],
        "wait": rule["wait"],
        "author": rule["author"],
        "on_behalf_of": rule["on_behalf_of"],
        "made_via": rule["made_via"],
        "state": rule["state"],
        "created_at": moment(rule["created_at"]),
        "expires_at": moment(rule["expires_at"]),
        "revoked_at": moment(rule["revoked_at"]),
        "revoked_by": rule["revoked_by"],
    }
