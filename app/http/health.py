"""Whether the process lives, and whether it can accept a request."""

import asyncio

from starlette.requests import Request

from app.errors import DatabaseUnavailable
from app.http.answers import Json
from app.http.parts import Parts
from app.http.routing import router
from app.http.schemas import answers
from app.services.shared import Shared
from app.services.views_health import check_database

PATIENCE_SECONDS = 1

routes = router("/health", "health")


class Readiness:
    """One look serves all who ask meanwhile: a frozen database must not eat connections."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._look = Shared(lambda: check_database(parts.services))

    async def check(self) -> None:
        look = self._look.begin()
        await asyncio.wait({look}, timeout=PATIENCE_SECONDS)
        if not look.done():
            raise DatabaseUnavailable(
                f"The database gave no answer within {PATIENCE_SECONDS} s.", retry_after=1
            )
        look.result()
        if not self._parts.is_registered():
            raise DatabaseUnavailable("The agents are about to be registered.", retry_after=1)


@routes.get("/live", operation_id="isAlive", response_model=answers.Health)
async def is_alive() -> Json:
    return Json({"status": "ok"})


@routes.get("/ready", operation_id="isReady", response_model=answers.Health)
async def is_ready(request: Request) -> Json:
    readiness: Readiness = request.app.state.readiness
    await readiness.check()
    return Json({"status": "ok"})
