"""The scripted model in a process of its own, with a stopwatch in front of it.

The clock is the machine's monotonic one, which all its processes share.
"""

import asyncio
import sys
import time
from collections import deque
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.cli.lifeline import hold
from app.llm.scripted import Scripted
from bench.orders import follow

KEPT = 400


class Stopwatch:
    """Notes when each request arrives, before anything is done for it."""

    def __init__(self, model: ASGIApp) -> None:
        self.model = model
        self.count = 0
        self.kept: deque[dict[str, Any]] = deque(maxlen=KEPT)
        self.effects: list[dict[str, Any]] = []
        self.seconds = 0.0
        self.open = asyncio.Event()
        self.open.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        arrival: dict[str, Any] = {"at": time.monotonic_ns()}
        request = Request(scope, receive)
        body = await request.body()
        self.count += 1
        self.kept.append(arrival | {"body": body.decode()})
        await self.open.wait()
        await asyncio.sleep(self.seconds)
        await self.model(scope, _once(body, receive), send)

    async def show(self, request: Request) -> JSONResponse:
        return JSONResponse({"count": self.count, "kept": list(self.kept)})

    async def tally(self, request: Request) -> JSONResponse:
        return JSONResponse(self.count)

    async def note_effect(self, request: Request) -> JSONResponse:
        self.effects.append({"at": time.monotonic_ns(), "key": request.query_params["key"]})
        return JSONResponse(None)

    async def show_effects(self, request: Request) -> JSONResponse:
        return JSONResponse(self.effects)

    async def forget(self, request: Request) -> JSONResponse:
        self.count = 0
        self.kept.clear()
        self.effects.clear()
        return JSONResponse(None)

    async def pause(self, request: Request) -> JSONResponse:
        self.seconds = float(request.query_params["ms"]) / 1000
        return JSONResponse(None)

    async def shut(self, request: Request) -> JSONResponse:
        self.open.clear()
        return JSONResponse(None)

    async def release(self, request: Request) -> JSONResponse:
        self.open.set()
        return JSONResponse(time.monotonic_ns())


def _once(body: bytes, receive: Receive) -> Receive:
    parts = [body]

    async def again() -> Message:
        if parts:
            return {"type": "http.request", "body": parts.pop(), "more_body": False}
        return await receive()

    return again


def build() -> Starlette:
    watch = Stopwatch(Scripted(follow, keep=0))
    control = [
        Route("/bench/arrivals", watch.show),
        Route("/bench/tally", watch.tally),
        Route("/bench/effects", watch.note_effect, methods=["POST"]),
        Route("/bench/effects", watch.show_effects),
        Route("/bench/forget", watch.forget, methods=["POST"]),
        Route("/bench/pause", watch.pause, methods=["POST"]),
        Route("/bench/shut", watch.shut, methods=["POST"]),
        Route("/bench/release", watch.release, methods=["POST"]),
    ]
    return Starlette(routes=[*control, Mount("/", watch)])


def main(port: str, lifeline: str) -> None:
    hold(int(lifeline))
    uvicorn.run(build(), host="127.0.0.1", port=int(port), log_level="warning", lifespan="off")


if __name__ == "__main__":
    main(*sys.argv[1:])
