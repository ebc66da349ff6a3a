"""The scripted model, on a port of its own, and what was asked of it."""

import json
import socket
import threading
from collections.abc import Awaitable, Callable, MutableMapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import uvicorn

from app.llm.scripted import RequestRecord, Scripted

App = Callable[..., Awaitable[None]]
Message = MutableMapping[str, Any]


@dataclass
class Asked:
    """A request to the model, the k-th of its text. `is_paid`: the answer went out whole."""

    text: str = ""
    k: int = -1
    refused: str | None = None
    is_paid: bool = False


_current: ContextVar[Asked] = ContextVar("current")


@dataclass
class Model:
    """An ASGI app. A request is known by the text it began with and by its place after that."""

    requests: list[Asked] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._scripted = Scripted(on_request=self._note, keep=1, accepts_foreign_thinking=True)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401 - ASGI
        asked = Asked()
        _current.set(asked)
        self.requests.append(asked)
        statuses: list[int] = []

        async def watch(message: Message) -> None:
            if message["type"] == "http.response.start":
                statuses.append(message["status"])
            elif asked.k < 0 and statuses[0] >= 400:
                asked.refused = bytes(message.get("body", b"")).decode(errors="replace")
            await send(message)
            is_last = message["type"] == "http.response.body" and not message.get("more_body")
            if is_last and statuses == [200]:
                asked.is_paid = True

        await self._scripted(scope, receive, watch)

    async def _note(self, record: RequestRecord) -> None:
        asked = _current.get()
        asked.text, asked.k = record.text, record.k


class Served:
    """An ASGI app on a loopback port, in a thread of its own."""

    def __init__(self, app: App) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        config = uvicorn.Config(
            app,
            loop="asyncio",
            lifespan="off",
            log_config=None,
            access_log=False,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, args=[[self._socket]], name="verify", daemon=True
        )
        self._thread.start()

    @property
    def url(self) -> str:
        host, port = self._socket.getsockname()
        return f"http://{host}:{port}"

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(timeout=5)
        self._socket.close()


def script_text(text: str, steps: list[dict[str, Any]] | None) -> str:
    """The input of a run whose model takes these steps."""
    return text if steps is None else f"{text}\n\n{json.dumps({'script': steps})}"
