"""The API as a process of its own, over real sockets."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from app.http.preferences import LONGEST_WAIT
from app.main import _config, _listener
from tests.integration.http.rows import Rows
from tests.support.database import migrate
from tests.support.environment import of_service
from tests.support.polling import eventually
from tests.support.processes import Process, free_port

JSON = {"Content-Type": "application/json"}
NOWHERE = "http://127.0.0.1:9"


class Api:
    """`perdure api` over one database, until the test ends."""

    def __init__(self, database_url: str, log: Path) -> None:
        self.port = free_port()
        self._env = of_service(database_url, NOWHERE) | {"PERDURE_PORT": str(self.port)}
        self._log = log
        self.process = self.launch()

    def launch(self, **env: str) -> Process:
        return Process("api", self._env | env, self._log)

    def http(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=f"http://127.0.0.1:{self.port}", timeout=40)

    async def answers(self, http: httpx.AsyncClient, path: str, status: int) -> httpx.Response:
        async def ask() -> httpx.Response | None:
            assert self.process.exit_code is None, self.process.tail()
            try:
                response = await http.get(path)
            except httpx.TransportError:
                return None
            return response if response.status_code == status else None

        return await eventually(ask, self.process.tail, 40)


@pytest.fixture
def api(database_url: str, tmp_path: Path) -> Iterator[Api]:
    api = Api(database_url, tmp_path / "api.log")
    yield api
    api.process.kill9()


def test_an_answer_does_not_wait_for_its_headers_to_be_acknowledged() -> None:
    with _listener("127.0.0.1", 0) as listener:
        client = socket.create_connection(listener.getsockname())
        accepted, _ = listener.accept()
        with client, accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_connection_is_kept_for_longer_than_an_answer_may_be_held() -> None:
    assert _config(FastAPI()).timeout_keep_alive > LONGEST_WAIT


async def test_a_signal_ends_the_process_though_requests_are_held(api: Api, rows: Rows) -> None:
    run = await rows.run(status="running")
    async with api.http() as http:
        await api.answers(http, "/health/ready", 200)
        held = [
            asyncio.create_task(http.get(f"/v1/runs/{run}", headers={"Prefer": "wait=60"}))
            for _ in range(5)
        ]
        await asyncio.sleep(0.3)
        began = time.monotonic()

        api.process.terminate()

        responses = await asyncio.gather(*held)
        code = await asyncio.to_thread(api.process.wait)
    assert [response.status_code for response in responses] == [202] * 5
    assert code == 0
    assert time.monotonic() - began < 3


@pytest.mark.parametrize("chunked", [False, True])
async def test_ten_megabytes_are_refused_and_the_next_request_is_served(
    api: Api, chunked: bool
) -> None:
    async def body() -> AsyncIterator[bytes]:
        for _ in range(160):
            yield b" " * 65536

    async with api.http() as http:
        await api.answers(http, "/health/ready", 200)
        content: AsyncIterator[bytes] | bytes = body() if chunked else b" " * 160 * 65536
        response = await http.post("/v1/runs", content=content, headers=JSON)

        assert response.status_code == 413
        assert response.json()["type"] == "/problems/too-large"
        assert (await http.get("/v1/runs")).json() == {"data": [], "next": None}


async def test_a_database_that_comes_later_is_served_then(
    empty_database_url: str, tmp_path: Path
) -> None:
    api = Api(empty_database_url, tmp_path / "api.log")
    try:
        async with api.http() as http:
            problem = await api.answers(http, "/health/ready", 503)
            assert problem.headers["retry-after"]
            assert (await http.get("/health/live")).status_code == 200

            await asyncio.to_thread(migrate, empty_database_url)

            await api.answers(http, "/health/ready", 200)
            names = [agent["name"] for agent in (await http.get("/v1/agents")).json()["data"]]
            assert "desk" in names
    finally:
        api.process.kill9()


async def test_a_port_in_use_is_told(api: Api) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        other = api.launch(PERDURE_PORT=str(taken.getsockname()[1]))
        code = await asyncio.to_thread(other.wait)

    assert code == 1
    assert "PERDURE_PORT" in other.tail()
    assert "Traceback" not in other.tail()


async def test_agents_that_cannot_be_loaded_refuse_the_start(api: Api, tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("from app import Agent\n\nimport nothing_like_this\n")

    process = api.launch(PERDURE_AGENTS=str(broken), PERDURE_PORT=str(free_port()))

    assert await asyncio.to_thread(process.wait) == 1
    assert f"{broken}:3" in process.tail()


async def test_an_open_host_without_a_key_refuses_the_start(api: Api) -> None:
    process = api.launch(PERDURE_HOST="0.0.0.0", PERDURE_PORT=str(free_port()))

    assert await asyncio.to_thread(process.wait) == 1
    assert "PERDURE_API_KEY" in process.tail()
