"""The recording HTTP proxy, with real clients and a real service."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from app.cli.verify.model import Served
from app.cli.verify.recorder import Recorder
from app.cli.verify.statements import Runs
from app.cli.verify.testimony import Testimony
from app.cli.verify.trap import Side, Target, Trap, Window
from tests.support.faults.shop import create_app

MODEL = "http://127.0.0.1:1"
ORDER = {"ref": "a"}


@asynccontextmanager
async def recording(
    directory: Path, side: Side | None = None, model: str = MODEL
) -> AsyncIterator[tuple[Recorder, str, Trap]]:
    """The recorder, the service behind it, and the trap."""
    shop = Served(create_app())
    window = Window("request", "worker", "POST /orders", 1)
    trap = Trap(None if side is None else Target(window, side, "cut"), lambda: None)
    runs = Runs()
    recorder = Recorder(
        Testimony(directory / "witness", runs), runs, trap, {"SHOP": shop.url}, model or shop.url
    )
    await recorder.start()
    try:
        yield recorder, shop.url, trap
    finally:
        await recorder.stop()
        shop.stop()


async def count_rows(shop: str) -> int:
    async with httpx.AsyncClient(trust_env=False) as http:
        return len((await http.get(f"{shop}/ledger")).json()["rows"])


@pytest.mark.parametrize("way", ["service", "proxy", "both"])
async def test_a_request_is_recorded_once_whichever_way_it_takes(tmp_path: Path, way: str) -> None:
    async with recording(tmp_path) as (recorder, shop, trap):
        proxy = None if way == "service" else recorder.url
        base = shop if way == "proxy" else recorder.urls["SHOP"]
        async with httpx.AsyncClient(proxy=proxy, trust_env=False) as http:
            headers = {"Idempotency-Key": "k"}
            answer = await http.post(f"{base}/orders", json=ORDER, headers=headers)
        assert answer.json() == {"ordered": "a"}
        (request,) = recorder.requests
        assert (request.method, request.path, request.key) == ("POST", "/orders", "k")
        assert (request.was_sent, request.status, request.happened) == (True, 200, True)
        assert [str(window) for window in trap.windows] == ["POST /orders"]
        assert await count_rows(shop) == 1


@pytest.mark.parametrize(("side", "rows"), [("before", 0), ("after", 1)])
async def test_a_tool_is_cut_off_on_either_side_of_its_effect(
    tmp_path: Path, side: Side, rows: int
) -> None:
    async with (
        recording(tmp_path, side) as (recorder, shop, trap),
        httpx.AsyncClient(base_url=recorder.urls["SHOP"], trust_env=False) as http,
    ):
        with pytest.raises(httpx.TransportError):
            await http.post("/orders", json=ORDER)
        assert trap.is_sprung
        assert await count_rows(shop) == rows
        assert recorder.requests[0].was_sent == (side == "after")


async def test_a_body_in_chunks_arrives_whole(tmp_path: Path) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield b'{"ref"'
        yield b': "a"}'

    async with (
        recording(tmp_path) as (recorder, _, _),
        httpx.AsyncClient(base_url=recorder.urls["SHOP"], trust_env=False) as http,
    ):
        assert (await http.post("/orders", content=chunks())).json() == {"ordered": "a"}
        assert recorder.requests[0].body == b'{"ref": "a"}'


async def test_a_tunnel_is_one_window(tmp_path: Path) -> None:
    async with recording(tmp_path) as (recorder, shop, trap):
        host, port = shop.removeprefix("http://").split(":")

        address = recorder.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(address[0], int(address[1]))
        writer.write(f"CONNECT {host}:{port} HTTP/1.1\r\n\r\n".encode())
        assert b"200" in await reader.readuntil(b"\r\n\r\n")
        writer.write(b"GET /ledger HTTP/1.1\r\nhost: shop\r\nconnection: close\r\n\r\n")
        assert b'{"rows":[]}' in await reader.read()
        writer.close()
        await writer.wait_closed()
        assert [str(window) for window in trap.windows] == [f"CONNECT {host}:{port}"]


async def test_a_service_that_is_away_is_told_as_such(tmp_path: Path) -> None:
    async with (
        recording(tmp_path) as (recorder, _, _),
        httpx.AsyncClient(proxy=recorder.url, trust_env=False) as http,
    ):
        answer = await http.post("http://127.0.0.1:9/orders", json=ORDER)
        assert answer.status_code == 502
        assert recorder.requests[0].status is None


async def test_what_goes_to_the_model_is_no_window(tmp_path: Path) -> None:
    async with recording(tmp_path, model="") as (recorder, shop, trap):
        async with httpx.AsyncClient(proxy=recorder.url, trust_env=False) as http:
            assert (await http.get(f"{shop}/ledger")).json() == {"rows": []}
        assert recorder.requests == []
        assert trap.windows == []
