"""Clients that take nothing, and a process that is told to stop under them."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import httpx
import pytest

from app.http import sse
from tests.integration.http.rows import Rows
from tests.integration.http.serving import Served
from tests.integration.http.test_process import Api
from tests.support.polling import eventually, in_time
from tests.support.streams import open_stream

EVENTS = 60
LARGE = 200_000
ADD = """
    insert into perdure.events (run, seq, type, data)
    select %s, n, 'call.started', json_build_object('text', repeat('x', %s))
    from generate_series(1, %s) n
"""


async def large_run(rows: Rows) -> str:
    """A run whose log no socket's buffers hold."""
    run = await rows.run(status="running", seq=EVENTS)
    await rows.execute(ADD, run, LARGE, EVENTS)
    return run


@contextmanager
def deaf(port: int, run: str) -> Iterator[socket.socket]:
    """A client that has asked for a stream, and reads none of it."""
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", port))
        client.sendall(
            f"GET /v1/runs/{run}/events HTTP/1.1\r\nHost: localhost\r\n"
            "Accept: text/event-stream\r\n\r\n".encode()
        )
        yield client


def read_all(client: socket.socket) -> bytes:
    received = b""
    client.settimeout(30)
    try:
        while more := client.recv(1 << 20):
            received += more
    except ConnectionResetError:
        pass
    return received


async def test_a_client_that_takes_nothing_is_cut_off_and_goes_on_from_what_it_has(
    served: Served, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse, "STALLED_SECONDS", 0.3)
    run = await large_run(rows)
    with deaf(served.port, run) as client:

        async def opened() -> bool:
            return bool(served.hub.streams.runs())

        async def freed() -> bool:
            return not (served.connections or served.hub.streams.runs())

        await eventually(opened, "the stream is open")
        await eventually(freed, "nothing is left of the stream")
        received = await asyncio.to_thread(read_all, client)
    whole = received[: received.rindex(b"\n\n")].count(b"\ndata: ")
    assert 0 < whole < EVENTS

    async with open_stream(served.http, run, after=whole) as stream:
        frames = await stream.take(EVENTS - whole)
    assert [frame.id for frame in frames] == list(range(whole + 1, EVENTS + 1))


async def test_a_client_that_takes_nothing_holds_one_page_of_its_log(
    served: Served, rows: Rows
) -> None:
    run = await large_run(rows)
    with deaf(served.port, run):

        async def given() -> int:
            return min((stream.after for stream in served.hub.streams.of(run)), default=0)

        await eventually(given, "the stream is open")
        async with open_stream(served.http, run) as stream:
            await stream.take(EVENTS)
        assert await given() < EVENTS


@asynccontextmanager
async def api(database_url: str, log: Path) -> AsyncIterator[tuple[Api, httpx.AsyncClient]]:
    api = Api(database_url, log)
    try:
        async with api.http() as http:
            await api.answers(http, "/health/ready", 200)
            yield api, http
    finally:
        api.process.kill9()


async def test_no_stream_keeps_the_process_from_its_end(
    database_url: str, tmp_path: Path, rows: Rows
) -> None:
    run, quiet = await large_run(rows), await rows.run(status="waiting")
    await rows.events(quiet, "run.queued")
    async with api(database_url, tmp_path / "api.log") as (service, http):
        with deaf(service.port, run):
            async with open_stream(http, quiet) as stream, open_stream(http, run) as other:
                await stream.take(1)
                await other.take(EVENTS)
                began = time.monotonic()
                service.process.terminate()
                assert await stream.rest() == await other.rest() == []
            assert await asyncio.to_thread(service.process.wait) == 0
        assert time.monotonic() - began < in_time(1)
    assert "Traceback" not in service.process.tail()
