"""A proxy before Postgres that stops a worker right before or right after a commit."""

import asyncio
import struct
from dataclasses import dataclass

import psycopg
from psycopg.conninfo import conninfo_to_dict

from app.cli.verify.database import credentials
from app.cli.verify.evidence import Evidence
from app.cli.verify.protocol import (
    CANCEL_REQUEST,
    GSS_REQUEST,
    SSL_REQUEST,
    Exchange,
    Message,
    Session,
    Splitter,
    Statement,
)
from app.cli.verify.statements import Reader
from app.cli.verify.trap import Trap, Victim, Window

CHUNK = 65536


@dataclass(frozen=True)
class Held:
    """A commit of a dead worker that is still on its way, in some pooler or network."""

    statement: Statement
    url: str

    def deliver(self) -> str:
        """Over another connection, as a pooler would; blocks. What the server answers."""
        sent = self.statement
        with psycopg.connect(self.url, autocommit=True) as connection:
            answer = connection.pgconn.exec_params(
                sent.sql.encode(), sent.raw, sent.types or None, sent.formats
            )
            value = answer.get_value(0, 0)
        return (answer.error_message or value or b"").decode(errors="replace")


class WireProxy:
    """Listens on a loopback port; `url` is the server behind it."""

    def __init__(
        self,
        url: str,
        reader: Reader,
        trap: Trap,
        victim: Victim,
        evidence: Evidence | None = None,
    ) -> None:
        self._url = url
        self._server = conninfo_to_dict(url)
        self._reader = reader
        self._trap = trap
        self.victim: Victim = victim
        self.evidence = evidence
        self._tasks: set[asyncio.Task[None]] = set()
        self.held: Held | None = None

    async def start(self) -> None:
        self._listener = await asyncio.start_server(self._accept, "127.0.0.1", 0)

    @property
    def url(self) -> str:
        host, port = self._listener.sockets[0].getsockname()
        who = credentials(self._server)
        return f"postgresql://{who}@{host}:{port}/{self._server['dbname']}"

    async def stop(self) -> None:
        self._listener.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def hold(self, statement: Statement) -> None:
        self.held = Held(statement, self._url)

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host, port = str(self._server.get("host") or "127.0.0.1"), self._server.get("port") or 5432
        if host.startswith("/"):
            return await asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
        return await asyncio.open_connection(host, int(port))

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            await self._serve(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # either side has gone, or all is over
        finally:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = await reader.readexactly(4)
            packet = head + await reader.readexactly(struct.unpack("!i", head)[0] - 4)
            (code,) = struct.unpack_from("!i", packet, 4)
            if code not in (SSL_REQUEST, GSS_REQUEST):
                break
            writer.write(b"N")
        server = await self.connect()
        server[1].write(packet)
        if code == CANCEL_REQUEST:
            server[1].close()
            return
        await Link(self, self._reader, self._trap, (reader, writer), server).run()


class Link:
    """One connection of the worker, from end to end."""

    def __init__(
        self,
        proxy: WireProxy,
        reader: Reader,
        trap: Trap,
        client: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        server: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        self._proxy = proxy
        self._reader = reader
        self._trap = trap
        self._client = client
        self._server = server
        self._session = Session()
        self._watched: dict[int, Window] = {}

    async def run(self) -> None:
        ways = [asyncio.ensure_future(way()) for way in (self._forward, self._back)]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            self._server[1].close()

    async def _forward(self) -> None:
        """A message waits for the Sync that makes a commit of it."""
        splitter, waiting = Splitter(), bytearray()
        while data := await self._client[0].read(CHUNK):
            for message in splitter.feed(data):
                waiting += message.raw
                exchange = self._session.sent(message)
                if exchange is not None and self._stops(exchange):
                    return
                if exchange is not None or message.kind not in "PBDEC":
                    self._server[1].write(bytes(waiting))
                    waiting.clear()
            await self._server[1].drain()

    def _stops(self, exchange: Exchange) -> bool:
        act = self._reader.read(exchange)
        if act is None:
            return False
        window = self._trap.meet("commit", act.name, act.place, self._proxy.victim)
        self._watched[id(exchange)] = window
        if not self._trap.is_due(window, "before"):
            return False
        if self._trap.kills and act.is_fenced:
            self._proxy.hold(exchange.statements[0])
        self._trap.passed(window)
        self._trap.spring()
        return True

    async def _back(self) -> None:
        splitter = Splitter()
        while data := await self._server[0].read(CHUNK):
            answers = []
            for message in splitter.feed(data):
                answers.append(message)
                exchange = self._session.answered(message)
                if exchange is not None and await self._ends(exchange):
                    return
            await self._answer(answers)

    async def _answer(self, answers: list[Message]) -> None:
        self._client[1].write(b"".join(message.raw for message in answers))
        await self._client[1].drain()

    async def _ends(self, exchange: Exchange) -> bool:
        window = self._watched.pop(id(exchange), None)
        if window is None or not self._reader.wrote(exchange):
            return False
        evidence, backend = self._proxy.evidence, self._session.backend
        if evidence is not None and not await evidence.take(backend):
            return False
        self._trap.passed(window)
        if not self._trap.is_due(window, "after"):
            return False
        self._trap.spring()
        return True
