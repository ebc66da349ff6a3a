"""How our routes differ from FastAPI's."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import APIRouter
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

from app.http.bodies import read
from app.http.preferences import preference_of

# Above the database's own lock timeout: a request that takes longer will not get its answer.
PATIENCE_SECONDS = 20

PROBLEM: dict[int | str, dict[str, Any]] = {
    "default": {
        "description": "A problem document (RFC 9457)",
        "content": {
            "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}
        },
    }
}


class Route(APIRoute):
    """Reads the body before FastAPI does, and does not wait for the database for ever."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        takes_body = self.body_field is not None

        async def handle_strictly(request: Request) -> Response:
            if takes_body:
                request = await read(request)
            seconds = PATIENCE_SECONDS + preference_of(request).wait
            async with asyncio.timeout(seconds) as request.state.patience:
                return await handle(request)

        return handle_strictly


def has_data(request: Request) -> None:
    """What is left to do waits for nobody, however long it takes."""
    request.state.patience.reschedule(None)


def router(prefix: str, tag: str) -> APIRouter:
    return APIRouter(prefix=prefix, tags=[tag], route_class=Route, responses=PROBLEM)
