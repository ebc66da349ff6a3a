"""Whether a request could be served now."""

from functools import cache

from app.errors import DatabaseUnavailable
from app.services.context import Services
from app.store import migrate

_needed_revision = cache(migrate.head)


async def check_database(services: Services) -> None:
    """Raises what is in the way."""
    needed = _needed_revision()
    async with services.database.connection() as connection:
        found = await migrate.revision(connection)
    if found != needed:
        raise DatabaseUnavailable(
            f"The schema is at revision {found}, not {needed}; run `perdure migrate`."
        )
