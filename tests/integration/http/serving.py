"""The application behind a real socket, in this process: its streams come as they are written."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

import httpx
import uvicorn
from starlette.types import ASGIApp

from app import main
from app.delivery.hub import Hub
from app.http.application import build
from app.http.parts import Parts
from app.services.context import Services


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@dataclass
class Served:
    """`http` has no limits of its own."""

    url: str
    hub: Hub
    app: ASGIApp
    http: httpx.AsyncClient
    server: uvicorn.Server = field(repr=False)

    @property
    def connections(self) -> int:
        return len(self.server.server_state.connections)

    @property
    def port(self) -> int:
        return httpx.URL(self.url).port or 0


@asynccontextmanager
async def serving(services: Services, hub: Hub) -> AsyncIterator[Served]:
    app = build(Parts(services, hub, lambda: True), key=None)
    looking = asyncio.create_task(hub.run())
    with main._listener("127.0.0.1", 0) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        server = _Server(main._config(app))
        running = asyncio.create_task(server.serve([listener]))
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(base_url=url, timeout=60, limits=limits) as http:
            yield Served(url, hub, app, http, server)
        hub.release()
        server.should_exit = True
        await running
    looking.cancel()
    await asyncio.wait({looking})
