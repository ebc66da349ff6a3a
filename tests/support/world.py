"""The outside world: model, payment provider, documents and gates on one port, in one thread."""

import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp

from tests.support.documents import Documents, Effects
from tests.support.gates import Disconnected, Gate, Gates
from tests.support.model_traffic import ModelTraffic
from tests.support.payments import KeyReused, Payments

DEAD = Response(status_code=499)  # nobody is left to read it


@dataclass
class World:
    """What the tests see of the outside; the processes under test see only its URL."""

    model_app: ASGIApp
    payments: Payments = field(default_factory=Payments)
    documents: Documents = field(default_factory=Documents)
    effects: Effects = field(default_factory=Effects)
    gates: Gates = field(default_factory=Gates)

    def __post_init__(self) -> None:
        self.model = ModelTraffic(self.model_app, self.gates)
        self._socket = socket.create_server(("127.0.0.1", 0))
        config = uvicorn.Config(
            self._routes(),
            loop="asyncio",
            lifespan="off",
            log_level="critical",
            timeout_keep_alive=75,  # never shorter than a client's patience
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._serve, name="world", daemon=True)

    @property
    def url(self) -> str:
        host, port = self._socket.getsockname()
        return f"http://{host}:{port}"

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self.gates.open_all()
        self._server.should_exit = True
        self._thread.join(timeout=10)
        self._socket.close()

    def gate(self, point: str, nth: int = 1, span: int = 1) -> Gate:
        """Holds the `nth` request (and `span - 1` more) that reaches `point` from now on.

        Points: `llm:arrive`, `llm:<k>` (the k-th model step, from 0), and `:before` and `:after`
        the effect of `pay`, `look_up`, `doc`, and of every name given to the tool `count`.
        """
        return self.gates.add(point, nth, span)

    def _serve(self) -> None:
        self._server.run(sockets=[self._socket])

    def _routes(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/pay", self._pay, methods=["POST"]),
                Route("/pay", self._look_up, methods=["GET"]),
                Route("/doc", self._doc, methods=["GET"]),
                Route("/effect", self._effect, methods=["POST"]),
                Mount("/", self.model),
            ]
        )

    async def _pay(self, request: Request) -> Response:
        body = await request.json()
        call = self.payments.receive(body["ref"], body["amount"], dict(request.headers))

        def book() -> Response:
            try:
                row = self.payments.book(call)
            except KeyReused:
                return JSONResponse({"error": "the key was used for another payment"}, 422)
            return JSONResponse({"ref": row.ref, "amount": row.amount, "status": "paid"})

        return await self._between_gates("pay", request, book)

    async def _look_up(self, request: Request) -> Response:
        def find() -> Response:
            asked = request.query_params
            row = self.payments.look_up(asked["ref"], asked.get("key"))
            found = row and {"ref": row.ref, "amount": row.amount, "status": "paid"}
            return JSONResponse({"payment": found})

        return await self._between_gates("look_up", request, find)

    async def _doc(self, request: Request) -> Response:
        name = request.query_params["name"]
        self.documents.note_read(name)
        return await self._between_gates(
            "doc", request, lambda: JSONResponse(self.documents.read(name))
        )

    async def _effect(self, request: Request) -> Response:
        body = await request.json()

        def record() -> Response:
            self.effects.record(body["name"], body["details"])
            return JSONResponse({"count": self.effects.count(body["name"])})

        return await self._between_gates(body["name"], request, record)

    async def _between_gates(
        self, name: str, request: Request, act: Callable[[], Response]
    ) -> Response:
        """A caller that dies before the effect gets none; after it, it got one without knowing."""
        try:
            await self.gates.pass_through(f"{name}:before", request.receive)
            response = act()
            await self.gates.pass_through(f"{name}:after", request.receive)
        except Disconnected:
            return DEAD
        return response
