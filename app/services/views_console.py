"""What people ask first, and runs with what a list of them tells."""

from datetime import datetime
from typing import Any

from app.services import views_runs
from app.services.context import Services
from app.services.shared import Shared
from app.services.views_pages import Listing
from app.services.views_shapes import Json, moment
from app.store import views_console

# However many pages are open, the database is asked so often.
COUNTS_SECONDS = 1.0
COST_SECONDS = 10.0


class Overview:
    """The numbers at the top of the console, for all who look at it through this process."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._counts = Shared(self._read_counts, COUNTS_SECONDS)
        self._cost = Shared(self._read_cost, COST_SECONDS)

    async def read(self) -> Json:
        """{running, queued, asking, inbox, unknown, dead, cost_today}"""
        return await self._counts.read() | {"cost_today": await self._cost.read()}

    async def _read_counts(self) -> Json:
        async with self._services.database.connection() as connection:
            return await views_console.counts(connection)

    async def _read_cost(self) -> str:
        async with self._services.database.connection() as connection:
            found = await views_console.cost_today(connection)
        return f"{found['cost']:.2f}"


async def list_runs(services: Services, listing: Listing) -> Json:
    """As for clients, each run with `waiting_since`."""
    page = await views_runs.list_runs(services, listing)
    parked = [run["id"] for run in page["data"] if run["waiting_for"]]
    async with services.database.connection() as connection:
        since = await views_console.waiting_since(connection, parked) if parked else {}
    for run in page["data"]:
        run["waiting_since"] = moment(since.get(run["id"]))
    return page


async def now(services: Services) -> datetime:
    """By the database, whose times the pages show."""
    async with services.database.connection() as connection:
        return await views_console.clock(connection)


def count_of(number: Any) -> str:  # noqa: ANN401 - of a row
    """As it is shown: a count that ended at the bound says so."""
    return f"{number:,}" + ("+" if number == views_console.MOST else "")
