"""The API process: it accepts, shows and decides; it runs no leg of any run."""

import asyncio
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from app.delivery.hub import Hub
from app.durable.enqueue import Legs
from app.errors import ConfigurationError
from app.http.application import build
from app.http.parts import Parts
from app.http.sse import CUT
from app.services.agents import register
from app.services.context import Callbacks, Services
from app.settings import Settings
from app.store.checks import check_durability
from app.store.db import Database
from app.store.db_errors import is_unavailable
from app.store.notify import Notifier
from app.tools.registry import Registry, load

CONNECTIONS = 10
# How long a request waits for a connection before it is told that the database is away.
PATIENCE_SECONDS = 3
# A request that a lock holds up is told to come back.
LOCK_SECONDS = 3
RETRY_SECONDS = 0.5
GRACE_SECONDS = 3
# Longer than clients keep an idle connection (httpx: 5 s): else one is closed under their request.
KEEP_ALIVE_SECONDS = 75
# A client that takes nothing, or is no longer there to say so, does not keep its connection.
DEAD_SECONDS = 60


def serve(settings: Settings) -> None:
    """Until SIGTERM or SIGINT. Agents that cannot be loaded, or a port in use, refuse the start."""
    registry = load(",".join(settings.agents))
    with _listener(settings.host, settings.port) as listener:
        try:
            asyncio.run(_serve(settings, registry, listener))
        except* ConfigurationError as refused:
            raise refused.exceptions[0] from None


def create_app(
    services: Services, hub: Hub, registration: "Registration", key: str | None
) -> FastAPI:
    return build(Parts(services, hub, registration.is_done), key=key)


class Registration:
    """Makes the agents of this deployment known, as soon as there is a database to tell."""

    def __init__(self, database: Database, registry: Registry, *, allow_unsafe: bool) -> None:
        self._database = database
        self._registry = registry
        self._allow_unsafe = allow_unsafe
        self._done = False

    def is_done(self) -> bool:
        return self._done

    async def run(self) -> None:
        while not self._done:
            try:
                await self._refuse_unsafe()
                await register(self._database, self._registry)
                self._done = True
            except Exception as error:
                if not is_unavailable(error):
                    raise
                await asyncio.sleep(RETRY_SECONDS)

    async def _refuse_unsafe(self) -> None:
        if self._allow_unsafe:
            return
        async with self._database.connection() as connection:
            problems = await check_durability(connection)
        if problems:
            raise ConfigurationError("This database cannot be used:", problems)


class _Protocol(H11Protocol):
    """Lets an answer be broken off, and not only ended: its client may never take the rest."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        application: Any = self.app

        async def app(scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401 - as ASGI has it
            extensions = {**scope.get("extensions", {}), CUT: transport.abort}
            await application({**scope, "extensions": extensions}, receive, send)

        self.app = app


class _Server(uvicorn.Server):
    """On a signal: lets held requests go at once, and ends by returning."""

    def __init__(self, config: uvicorn.Config, hub: Hub) -> None:
        super().__init__(config)
        self._hub = hub

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop)
        yield

    def _stop(self) -> None:
        self._hub.release()
        self.should_exit = True


async def _serve(settings: Settings, registry: Registry, listener: socket.socket) -> None:
    url = settings.database_url.get_secret_value()
    key = settings.api_key.get_secret_value() if settings.api_key else None
    legs = Legs(url)
    async with _database(url) as database:
        hub = Hub(database)
        registration = Registration(database, registry, allow_unsafe=settings.allow_unsafe_database)
        callbacks = Callbacks(bool(settings.webhook_keys), settings.webhook_allow_private)
        services = Services(database, legs, Notifier(database), settings.queue_limit, callbacks)
        app = create_app(services, hub, registration, key)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(hub.run()), group.create_task(registration.run())]
            await _Server(_config(app), hub).serve([listener])
            for task in tasks:
                task.cancel()
    legs.close()


def _database(url: str) -> Database:
    return Database(
        url, size=CONNECTIONS, patience=PATIENCE_SECONDS, lock_seconds=LOCK_SECONDS, check=True
    )


def _config(app: FastAPI) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=_Protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )


def _listener(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=2048)
        # Connections inherit it. An event loop that is given a socket does not see that it is TCP,
        # and an answer's body would wait for the client to acknowledge its headers: 40 ms.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, DEAD_SECONDS * 1000)
        return listener
    except OSError as error:
        raise ConfigurationError(
            f"Perdure cannot listen on {host}:{port}: {error.strerror}.",
            hint="Stop what listens there, or choose another PERDURE_PORT.",
        ) from error
