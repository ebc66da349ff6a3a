import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import httpx
from sqlalchemy.engine import make_url

from app.delivery.hub import Hub
from app.http.application import build
from app.http.parts import Parts
from app.services.context import Services
from app.store.db import Database
from tests.integration.http.conftest import BASE_URL
from tests.integration.http.rows import Rows
from tests.support.polling import eventually


@asynccontextmanager
async def serving(
    url: str, is_registered: Callable[[], bool] = lambda: True
) -> AsyncIterator[httpx.AsyncClient]:
    nothing = cast(Any, None)
    async with Database(url, size=2, patience=0.5) as database:
        services = Services(database, nothing, nothing, queue_limit=100)
        app = build(Parts(services, Hub(database), is_registered), key=None)
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url=BASE_URL) as client:
            yield client


@asynccontextmanager
async def mute_server() -> AsyncIterator[str]:
    """Takes connections and never says a word, as a frozen Postgres does."""
    accepted: list[asyncio.StreamWriter] = []

    async def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted.append(writer)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield f"postgresql://u@127.0.0.1:{port}/d"
    finally:
        server.close()
        for writer in accepted:
            writer.close()


def assert_unavailable(response: httpx.Response) -> None:
    assert response.status_code == 503, response.text
    assert response.json()["type"] == "/problems/database-unavailable"
    assert response.headers["retry-after"] in ("1", "2")


async def test_a_migrated_database_makes_ready(database_url: str) -> None:
    async with serving(database_url) as http:
        assert (await http.get("/health/ready")).json() == {"status": "ok"}


async def test_before_the_migration_nothing_is_ready(empty_database_url: str) -> None:
    async with serving(empty_database_url) as http:
        ready = await http.get("/health/ready")
        read = await http.get("/v1/runs")

    assert_unavailable(ready)
    assert "perdure migrate" in ready.json()["detail"]
    assert_unavailable(read)


async def test_a_newer_schema_still_serves_and_a_half_made_one_does_not(
    database_url: str, rows: Rows
) -> None:
    async with serving(database_url) as http:
        await rows.execute("update perdure.schema_version set version_num = '9999'")
        assert (await http.get("/health/ready")).status_code == 200

        await rows.execute("delete from perdure.schema_version")
        assert_unavailable(await http.get("/health/ready"))


async def test_before_the_agents_are_known_nothing_is_ready(database_url: str) -> None:
    known = False

    async with serving(database_url, lambda: known) as http:
        assert_unavailable(await http.get("/health/ready"))
        known = True
        assert (await http.get("/health/ready")).status_code == 200


async def test_without_a_database_the_process_lives_and_says_so() -> None:
    async with serving("postgresql://127.0.0.1:1/nowhere") as http:
        assert (await http.get("/health/live")).status_code == 200
        assert_unavailable(await http.get("/health/ready"))
        assert_unavailable(await http.get("/v1/runs"))


async def test_a_frozen_database_is_told_within_a_second_or_so() -> None:
    async with mute_server() as url, serving(url) as http:
        began = time.monotonic()
        found = await asyncio.gather(*(http.get("/health/ready") for _ in range(20)))

        assert time.monotonic() - began < 2
        for response in found:
            assert_unavailable(response)


@asynccontextmanager
async def away(url: str) -> AsyncIterator[None]:
    """The database refuses connections, and those there were are gone."""
    name = make_url(url).database
    elsewhere = make_url(url).set(database="postgres").render_as_string(hide_password=False)
    async with await Rows.connect(elsewhere) as admin:
        await admin.execute(f"alter database {name} allow_connections false")
        await admin.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", name
        )
        yield
        await admin.execute(f"alter database {name} allow_connections true")


async def test_when_the_database_goes_away_requests_are_refused_and_later_served_again(
    database_url: str,
) -> None:
    paths = ("/v1/runs", "/v1/waits", "/v1/workers", "/health/ready")
    async with serving(database_url) as http:
        for path in paths:
            assert (await http.get(path)).status_code == 200

        async with away(database_url):
            for path in paths:
                assert_unavailable(await http.get(path))

        async def served() -> bool:
            return all([(await http.get(path)).status_code == 200 for path in paths])

        await eventually(served, "everything is served again", 10)
