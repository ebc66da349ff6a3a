"""A way to the service on which answers get lost after the service has given them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx

HOPS = frozenset({"host", "connection", "content-length", "transfer-encoding"})


@dataclass
class Lossy:
    """Passes requests on one by one; of `losses` more answers nothing comes back.

    `held` are those that the service has been given and has not answered; of one that it never
    answers nothing comes back either.
    """

    upstream: str
    losses: int = 0
    port: int = 0
    passed: list[str] = field(default_factory=list)
    held: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            line, *lines = head.strip().split("\r\n")
            headers = dict(each.lower().split(": ", 1) for each in lines)
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            method, path, _ = line.split(" ")
            self.held.append(f"{method} {path}")
            try:
                answer = await self._pass_on(method, path, headers, body)
            except httpx.TransportError:
                return
            finally:
                self.held.remove(f"{method} {path}")
            if self.losses > 0:
                self.losses -= 1
            else:
                writer.write(answer)
                await writer.drain()
        finally:
            writer.close()

    async def _pass_on(self, method: str, path: str, headers: dict[str, str], body: bytes) -> bytes:
        kept = {name: value for name, value in headers.items() if name not in HOPS}
        async with httpx.AsyncClient(timeout=70) as http:
            response = await http.request(method, self.upstream + path, headers=kept, content=body)
        self.passed.append(f"{method} {path} {response.status_code}")
        lines = [f"HTTP/1.1 {response.status_code} Passed on", "connection: close"]
        lines += [
            f"{name}: {value}" for name, value in response.headers.items() if name not in HOPS
        ]
        lines += [f"content-length: {len(response.content)}", "", ""]
        return "\r\n".join(lines).encode() + response.content


@asynccontextmanager
async def lossy(upstream: str, losses: int) -> AsyncIterator[Lossy]:
    way = Lossy(upstream, losses)
    server = await asyncio.start_server(way.serve, "127.0.0.1", 0)
    way.port = server.sockets[0].getsockname()[1]
    async with server:
        yield way
