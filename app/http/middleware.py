"""Around every request, outermost first: its id and last resort, HEAD, and the size of its body."""

from collections.abc import Awaitable, Callable

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app import telemetry
from app.domain.ids import new_trace_id
from app.errors import Invalid, TooLarge

Answer = Callable[[Request, Exception], Awaitable[Response]]

LARGEST_BODY = 1024 * 1024
# Stands in the scope of what came as a HEAD.
IS_HEAD = "perdure.is_head"
# In every scope: what X-Request-Id will say.
REQUEST_ID = "perdure.request_id"


class Envelope:
    """Names the request in X-Request-Id, and renders any error that nothing else has rendered."""

    def __init__(self, app: ASGIApp, answer: Answer) -> None:
        self._app = app
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = new_trace_id()
        scope = {**scope, REQUEST_ID: request_id}
        started = False

        async def send_named(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                MutableHeaders(scope=message)["X-Request-Id"] = request_id
            await send(message)

        with telemetry.place(request=request_id):
            try:
                await self._app(scope, receive, send_named)
            except ClientDisconnect:
                return  # it has left in the midst of its body, and hears nothing any more
            except Exception as error:
                if started:
                    raise
                response = await self._answer(Request(scope, receive), error)
                await response(scope, receive, send_named)


class Head:
    """HEAD is GET without the body."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return

        async def send_bare(message: Message) -> None:
            if message["type"] == "http.response.body":
                message = {**message, "body": b""}
            await send(message)

        await self._app({**scope, "method": "GET", IS_HEAD: True}, receive, send_bare)


class BodyLimit:
    """Refuses a body by its announced length, or as soon as that much of it has come in."""

    def __init__(self, app: ASGIApp, largest: int = LARGEST_BODY) -> None:
        self._app = app
        self._largest = largest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        self._check(_announced(scope))
        seen = 0

        async def receive_some() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            self._check(seen)
            return message

        await self._app(scope, receive_some, send)

    def _check(self, size: int) -> None:
        if size > self._largest:
            raise TooLarge(
                f"A body may have {self._largest} bytes; put what is larger where a tool can "
                "fetch it, and send its address."
            )


def _announced(scope: Scope) -> int:
    length = Headers(scope=scope).get("content-length", "0")
    if not (length.isascii() and length.isdigit()):
        raise Invalid("`Content-Length` is no number.")
    return int(length)
