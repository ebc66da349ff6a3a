"""Looks at deliveries, behind the courier's back."""

from typing import LiteralString

from app.store.db import Row, rows
from tests.integration.store.stage import Stage
from tests.support.polling import eventually

DELIVERY: LiteralString = "select * from perdure.deliveries where run = %(run)s order by seq"


async def of(stage: Stage, run: str) -> list[Row]:
    return await rows(stage.connection, DELIVERY, run=run)


async def types(stage: Stage, run: str) -> list[str]:
    return [each["type"] for each in await of(stage, run)]


async def became(stage: Stage, run: str, *states: str, attempts: int = 0) -> list[Row]:
    """The deliveries of a run once their states are these and the first has been tried enough."""

    async def probe() -> list[Row] | None:
        found = await of(stage, run)
        settled = found[0]["attempts"] >= attempts and (attempts == 0 or found[0]["last_error"])
        return found if [each["state"] for each in found] == list(states) and settled else None

    return await eventually(probe, f"the deliveries of {run} became {states}")
