"""What a person can settle, with all that is to be known of it."""

from app.domain.ids import idempotency_key
from app.errors import NotFound
from app.services import views_waits
from app.services.context import Services
from app.services.views_pages import Listing, instant, name
from app.services.views_shapes import Json, history, moment
from app.store import views_inbox
from app.store.db import Connection, Row

# Of one run: of those that ask, and of all; the inbox and `/v1/waits` list every one.
MOST_ASKING = 100
MOST_WAITS = 500


async def list_asking(services: Services, listing: Listing) -> Json:
    """Open waits that a person can settle, oldest first."""
    start = listing.start(instant, name)
    async with services.database.connection() as connection:
        found = await views_inbox.asking(connection, start, listing.limit + 1)
    return listing.page(found, shape_case, lambda wait: (wait["created_at"], wait["id"]))


async def list_unknown(services: Services, listing: Listing) -> Json:
    """Calls with an unknown outcome that no wait asks about, youngest first."""
    start = listing.start(instant, name)
    async with services.database.connection() as connection:
        found = await views_inbox.unknown(connection, listing.filters, start, listing.limit + 1)
    return listing.page(found, _unknown, lambda call: (call["created_at"], call["id"]))


async def get_case(services: Services, wait: str) -> Json:
    async with services.database.connection() as connection:
        found = await views_inbox.case(connection, wait)
    if found is None:
        raise NotFound(f"There is no wait {wait}; the inbox shows those that are open.")
    return shape_case(found)


async def asking_of(connection: Connection, runs: list[str]) -> list[Json]:
    """Open waits of these runs that a person can settle, oldest first."""
    found = await views_inbox.asking_of(connection, runs, MOST_ASKING)
    return [shape_case(each) for each in found]


async def last_of(connection: Connection, run: str) -> list[Json]:
    """The run's waits in all states, oldest first, without what their calls have as well."""
    found = await views_inbox.last_of(connection, run, MOST_WAITS)
    return [shape_case(each) for each in reversed(found)]


def shape_case(wait: Row) -> Json:
    return views_waits.shape(wait) | _context(wait)


def _unknown(call: Row) -> Json:
    return {
        "id": call["id"],
        "run": call["run"],
        "arguments": call["arguments"],
        "started_at": moment(call["started_at"]),
    } | _context(call)


def _context(row: Row) -> Json:
    key = row["turn"] and idempotency_key(row["origin"] or row["run"], row["turn"], row["index"])
    return {
        "agent": row["agent"],
        "target": row["target"],
        "run_status": row["run_status"],
        "tool": row["tool"],
        "turn": row["turn"],
        "replay": row["replay"],
        "history": history(row["history"] or ()),
        "idempotency_key": key,
        "declared": row["declared"],
    }
