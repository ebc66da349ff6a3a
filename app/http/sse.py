"""Server-sent events: the log of a run as frames, for as long as the client takes them."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from app.delivery.drafts import ALL_ATTEMPTS, Delta
from app.delivery.streams import Page, Stream, Streams
from app.domain.canonical import printed
from app.http.leaving import client_gone
from app.http.middleware import IS_HEAD
from app.services.views_parts import shape_event
from app.store.db import Row

# Between two frames; a proxy that sees nothing for longer may take the connection for dead.
COMMENT_SECONDS = 15.0
# A client that does not take what is sent to it is cut off, and comes back to where it was.
STALLED_SECONDS = 30.0
COMMENT = b":\n\n"
CHUNK_BYTES = 16 * 1024
# How the server lets an application break a connection off, as an extension of ASGI.
CUT = "perdure.cut"
Cut = Callable[[], None]
VARY = {"Vary": "Accept"}
HEADERS = {
    "Content-Type": "text/event-stream",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",
    **VARY,
}

# For /openapi.json.
STREAM: dict[str, Any] = {
    "description": "A page; or, if `Accept` asks for `text/event-stream`, a stream of frames. "
    "Each is an event of the log: its number as `id`, its type as `event`, itself as `data`. "
    "The stream ends when the run has ended.",
    "content": {"text/event-stream": {"schema": {"type": "string"}}},
}


class Stalled(Exception):
    """The client takes nothing."""


class EventStream(Response):
    """`superseded`: the last turn that is over, for a client that wants to hear the model speak."""

    def __init__(
        self, streams: Streams, run: str, after: int, superseded: int | None = None
    ) -> None:
        super().__init__(headers=HEADERS)
        del self.headers["content-length"]
        self._streams = streams
        self._run = run
        self._after = after
        self._superseded = None if superseded is None else (superseded, ALL_ATTEMPTS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send(
            {"type": "http.response.start", "status": 200, "headers": self.raw_headers},
        )
        if scope.get(IS_HEAD):
            await _send(send, b"", more=False)
            return
        cut: Cut = scope.get("extensions", {}).get(CUT, _stay)
        writing = asyncio.create_task(self._write(send, cut))
        leaving = asyncio.create_task(client_gone(receive))
        try:
            await asyncio.wait({writing, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if writing.done() and isinstance(writing.exception(), Stalled):
                cut()
                await asyncio.wait({leaving}, timeout=1.0)
            elif writing.done():
                writing.result()
        finally:
            writing.cancel()
            leaving.cancel()

    async def _write(self, send: Send, cut: Cut) -> None:
        with self._streams.follow(self._run, self._after, self._superseded, cut) as stream:
            is_open = True
            while is_open:
                is_open = await self._write_next(stream, send)
            await _send(send, b"", more=False)

    async def _write_next(self, stream: Stream, send: Send) -> bool:
        """Whether there may be more."""
        try:
            async with asyncio.timeout(COMMENT_SECONDS):
                found = await self._streams.next(stream)
        except TimeoutError:
            await _send(send, COMMENT)
            return True
        match found:
            case None:
                return False
            case Delta():
                await _send(send, delta_frame(found))
                return True
            case Page():
                for chunk in _chunks(found.written(frame)):
                    await _send(send, chunk)
                return not found.is_last


def frame(event: Row) -> bytes:
    data = printed(shape_event(event))
    return f"id: {event['seq']}\nevent: {event['type']}\ndata: {data}\n\n".encode()


def delta_frame(delta: Delta) -> bytes:
    """Without an id: it is no place to come back to."""
    return f"event: model.delta\ndata: {printed(vars(delta))}\n\n".encode()


def _chunks(frames: Sequence[bytes]) -> Iterator[bytes]:
    chunk = b""
    for each in frames:
        if chunk and len(chunk) + len(each) > CHUNK_BYTES:
            yield chunk
            chunk = b""
        chunk += each
    if chunk:
        yield chunk


async def _send(send: Send, body: bytes, *, more: bool = True) -> None:
    """Returns once the client has taken most of what it was sent before."""
    try:
        async with asyncio.timeout(STALLED_SECONDS):
            await send({"type": "http.response.body", "body": body, "more_body": more})
    except TimeoutError:
        raise Stalled from None


def _stay() -> None:
    """For a server that cannot break off."""
