"""Whether a request could be served now."""

from functools import cache

from app.errors import DatabaseUnavailable
from app.services.context import Services
from app.store import migrate

# The scripts are files; they do not change under a running process.
_is_older = cache(migrate.is_older)


async def check_database(services: Services) -> None:
    """Raises what is in the way."""
    async with services.database.connection() as connection:
        revision = await migrate.revision(connection)
    if revision is None or _is_older(revision):
        raise DatabaseUnavailable(
            "The schema of the database is older than this version; run `perdure migrate`."
        )
