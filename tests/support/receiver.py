"""Where a client takes webhooks in: hears them, answers as told, can be down."""

import asyncio
import json
import socket
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import uvicorn
from standardwebhooks import Webhook
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from tests.support.environment import WEBHOOK_SECRET
from tests.support.gates import Disconnected, Gate, Gates
from tests.support.polling import TIMEOUT
from tests.support.processes import free_port
from tests.support.world import DEAD


@dataclass(frozen=True)
class Heard:
    """One request, however it was answered."""

    headers: dict[str, str]
    body: str

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def said(self) -> dict[str, Any]:
        said: dict[str, Any] = json.loads(self.body)
        return said

    @property
    def type(self) -> str:
        return str(self.said["type"])

    @property
    def run(self) -> dict[str, Any]:
        run: dict[str, Any] = self.said["data"]["run"]
        return run

    def verify(self, secret: str = WEBHOOK_SECRET) -> None:
        """As a client would, with the library of the standard."""
        assert Webhook(secret).verify(self.body, self.headers) == self.said


class Receiver:
    """Listens on one port of its own. `answers`: of the next requests; after them all get 200."""

    def __init__(self, **tls: str) -> None:
        self.port = free_port()
        self.heard: list[Heard] = []
        self.answers: deque[Response] = deque()
        self.strays: list[str] = []
        self._gates = Gates()
        self._changed = threading.Condition()
        self._tls = tls
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    def start(self) -> None:
        app = Starlette(
            routes=[
                Route("/hook", self._hear, methods=["POST"]),
                Route("/{path:path}", self._stray, methods=["GET", "POST"]),
            ]
        )
        listener = socket.create_server(("127.0.0.1", self.port))
        config = uvicorn.Config(
            app,
            loop="asyncio",
            lifespan="off",
            log_level="critical",
            timeout_graceful_shutdown=1,
            ssl_keyfile=self._tls.get("key"),
            ssl_certfile=self._tls.get("certificate"),
        )
        server = self._server = uvicorn.Server(config)

        def serve() -> None:
            with listener:
                server.run(sockets=[listener])

        self._thread = threading.Thread(target=serve, name="receiver", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """From here on nobody listens there."""
        self._gates.open_all()
        if self._server is not None and self._thread is not None:
            self._server.should_exit = True
            self._thread.join(timeout=10)

    def gate(self, type: str, nth: int = 1) -> Gate:
        """Holds the `nth` webhook of this type after it was heard, before it is answered."""
        return self._gates.add(type, nth)

    def answer(self, *statuses: int, **headers: str) -> None:
        """What the next requests get, one for each status."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.answers.extend(Response(status_code=status, headers=named) for status in statuses)

    def answer_without_end(self) -> None:
        async def drip() -> AsyncIterator[bytes]:
            while True:
                yield b"x" * 1000
                await asyncio.sleep(0.01)

        self.answers.append(StreamingResponse(drip()))

    def of(self, run: str) -> list[Heard]:
        return [each for each in list(self.heard) if each.run["id"] == run]

    def types(self, run: str) -> list[str]:
        """What was heard of a run, in order, each once."""
        return list({each.id: each.type for each in self.of(run)}.values())

    async def told(self, run: str, *types: str, within: float = TIMEOUT) -> list[Heard]:
        """All requests about a run, once it has been told of just these types, in this order."""
        await self._until(
            lambda: self.types(run) == list(types), within, lambda: f"{run}: {self.types(run)}"
        )
        return self.of(run)

    async def requests(self, run: str, count: int, within: float = TIMEOUT) -> list[Heard]:
        """The first requests about a run, once there are so many."""
        await self._until(
            lambda: len(self.of(run)) >= count, within, lambda: f"{len(self.of(run))} requests"
        )
        return self.of(run)[:count]

    async def _until(
        self, condition: Callable[[], bool], within: float, found: Callable[[], str]
    ) -> None:
        def wait() -> bool:
            with self._changed:
                return self._changed.wait_for(condition, within)

        if not await asyncio.to_thread(wait):
            raise TimeoutError(f"not heard within {within} s; {found()}")

    async def _hear(self, request: Request) -> Response:
        heard = Heard(dict(request.headers), (await request.body()).decode())
        with self._changed:
            self.heard.append(heard)
            self._changed.notify_all()
            answer = self.answers.popleft() if self.answers else Response()
        try:
            await self._gates.pass_through(heard.type, request.receive)
        except Disconnected:
            return DEAD
        return answer

    async def _stray(self, request: Request) -> Response:
        self.strays.append(request.url.path)
        return Response()
