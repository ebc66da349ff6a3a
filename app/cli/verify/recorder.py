"""An HTTP proxy that writes down what tools ask the outside for, and can stop them there.

A request that comes in whole is a window: before it is passed on, and after it was answered. A
tunnel (CONNECT) is one too: before it is opened, and after it was used; nobody sees inside it.
"""

import asyncio
import ssl
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from app.cli.verify.statements import Place, Runs
from app.cli.verify.testimony import Caller, Testimony
from app.cli.verify.trap import Trap, Window

CHUNK = 65536
READS = ("GET", "HEAD", "OPTIONS", "CONNECT")
HOP = ("connection", "proxy-connection", "keep-alive", "proxy-authorization", "expect")
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass
class Request:
    """As it arrived. `status`: of the answer, once the outside gave one; None if it never did."""

    method: str
    url: str
    path: str
    headers: dict[str, str]
    body: bytes
    caller: Caller | None
    was_sent: bool = False
    status: int | None = None

    @property
    def may_change(self) -> bool:
        return self.method not in READS

    @property
    def happened(self) -> bool:
        """As far as the answer tells."""
        return self.status is not None and self.status < 400

    @property
    def key(self) -> str | None:
        return self.headers.get("idempotency-key") or self.headers.get("x-idempotency-key")


@dataclass
class Head:
    method: str
    target: str
    lines: list[tuple[str, str]] = field(default_factory=list)

    @property
    def headers(self) -> dict[str, str]:
        return {name.lower(): value for name, value in self.lines}


class Recorder:
    """One port for each of `services` (name to URL), and one for all that honours HTTP_PROXY."""

    def __init__(
        self, testimony: Testimony, runs: Runs, trap: Trap, services: Mapping[str, str], model: str
    ) -> None:
        self._testimony = testimony
        self._runs = runs
        self._trap = trap
        self._services = dict(services)
        self._model = urlsplit(model).netloc
        self._own: dict[str, str] = {}
        self._listeners: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self.requests: list[Request] = []
        self.urls: dict[str, str] = {}

    async def start(self) -> None:
        self.url = await self._listen(None)
        for name, upstream in self._services.items():
            self.urls[name] = await self._listen(upstream)

    @property
    def addresses(self) -> set[str]:
        return {urlsplit(url).netloc for url in (self.url, *self.urls.values())}

    async def stop(self) -> None:
        for listener in self._listeners:
            listener.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _listen(self, upstream: str | None) -> str:
        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            try:
                await self._serve((reader, writer), upstream)
            except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError, ValueError):
                pass  # either side has gone or spoke no HTTP, or all is over
            finally:
                writer.close()

        listener = await asyncio.start_server(accept, "127.0.0.1", 0)
        self._listeners.append(listener)
        netloc = "{}:{}".format(*listener.sockets[0].getsockname())
        if upstream is not None:
            self._own[netloc] = upstream
        return f"http://{netloc}"

    async def _serve(self, client: Streams, upstream: str | None) -> None:
        head = await _read_head(client[0])
        if head is None:
            return
        caller = self._testimony.caller_of(client[1].get_extra_info("peername")[1])
        if head.method == "CONNECT":
            await self._tunnel(client, head, caller)
            return
        url = self._url(head.target, upstream)
        body = await _read_body(client[0], head.headers)
        split = urlsplit(url)
        if split.netloc == self._model:
            client[1].write(await _ask(url, head, body))
            return
        request = Request(head.method, url, split.path or "/", head.headers, body, caller)
        window = self._meet(request)
        if self._trap.is_due(window, "before"):
            self._trap.passed(window)
            self._trap.spring()
            return
        request.was_sent = True
        try:
            answer = await _ask(url, head, body)
        except OSError:
            answer = b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        else:
            request.status = int(answer.split(b" ", 2)[1])
        self._trap.passed(window)
        if self._trap.is_due(window, "after"):
            self._trap.spring()
            return
        client[1].write(answer)
        await client[1].drain()

    def _url(self, target: str, upstream: str | None) -> str:
        """What is meant, whether it came to a service's port or to the proxy's."""
        if upstream is None:
            netloc = urlsplit(target).netloc
            if netloc not in self._own:
                return target
            upstream, target = self._own[netloc], target.split(netloc, 1)[1] or "/"
        return upstream.rstrip("/") + target

    def _meet(self, request: Request) -> Window:
        self.requests.append(request)
        caller = request.caller
        place = None if caller is None else caller.place
        name = f"{request.method} {request.path}"
        if caller is not None:
            hook = "" if caller.part == "body" else f" ({caller.part})"
            name = f"{name} by {caller.tool} {self._told(caller.place)}{hook}"
        return self._trap.meet("request", name, place)

    def _told(self, place: Place) -> str:
        return f"{self._runs.prefix(place.run)}{place.turn}/{place.index}"

    async def _tunnel(self, client: Streams, head: Head, caller: Caller | None) -> None:
        host, _, port = head.target.rpartition(":")
        request = Request(
            "CONNECT", f"https://{head.target}", head.target, head.headers, b"", caller
        )
        window = self._meet(request)
        if self._trap.is_due(window, "before"):
            self._trap.passed(window)
            self._trap.spring()
            return
        server = await asyncio.open_connection(host.strip("[]"), int(port))
        request.was_sent = True
        client[1].write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        ways = [_pump(client[0], server[1]), _pump(server[0], client[1])]
        tasks = [asyncio.ensure_future(way) for way in ways]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        server[1].close()
        self._trap.passed(window)
        if self._trap.is_due(window, "after"):
            self._trap.spring()


async def _read_head(reader: asyncio.StreamReader) -> Head | None:
    try:
        raw = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = raw.decode("latin-1").rstrip("\r\n").split("\r\n")
    method, target, _ = first.split(" ", 2)
    pairs = [line.split(":", 1) for line in lines]
    return Head(method, target, [(name.strip(), value.strip()) for name, value in pairs])


async def _read_body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
    if "chunked" in headers.get("transfer-encoding", "").lower():
        body = b""
        while size := int((await reader.readline()).split(b";")[0], 16):
            body += await reader.readexactly(size)
            await reader.readline()
        while (await reader.readline()).strip():
            pass
        return body
    return await reader.readexactly(int(headers.get("content-length", "0")))


async def _ask(url: str, head: Head, body: bytes) -> bytes:
    """The whole answer, as the bytes that go back to the client."""
    split = urlsplit(url)
    is_tls = split.scheme == "https"
    context = ssl.create_default_context() if is_tls else None
    port = split.port or (443 if is_tls else 80)
    reader, writer = await asyncio.open_connection(split.hostname, port, ssl=context)
    path = split.path or "/"
    target = f"{path}?{split.query}" if split.query else path
    kept = [
        f"{name}: {value}"
        for name, value in head.lines
        if name.lower() not in (*HOP, "host", "transfer-encoding", "content-length")
    ]
    if body or head.method in ("POST", "PUT", "PATCH"):
        kept.append(f"content-length: {len(body)}")
    lines = [f"{head.method} {target} HTTP/1.1", f"host: {split.netloc}", *kept]
    try:
        writer.write("\r\n".join([*lines, "connection: close", "", ""]).encode("latin-1") + body)
        answer = b""
        while data := await reader.read(CHUNK):
            answer += data
    finally:
        writer.close()
    if not answer:
        raise ConnectionResetError("no answer")
    return answer


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
