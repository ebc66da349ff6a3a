"""The application over a database that is not there: what is refused is refused before it."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, cast

import httpx
import pytest
import pytest_asyncio
from fastapi import FastAPI

from app.delivery.hub import Hub
from app.http.application import build
from app.http.parts import Parts
from app.services.context import Services
from app.store.db import Database

BASE_URL = "http://127.0.0.1:8000"
MakeClient = Callable[..., AbstractAsyncContextManager[httpx.AsyncClient]]


def make_app(key: str | None = None) -> FastAPI:
    database = Database("postgresql://127.0.0.1:1/nowhere", size=1, patience=0.1)
    nothing = cast(Any, None)
    services = Services(database, nothing, nothing, queue_limit=100)
    return build(Parts(services, Hub(database), lambda: True), key=key)


@pytest.fixture
def make_client() -> MakeClient:
    def make(key: str | None = None, base_url: str = BASE_URL) -> httpx.AsyncClient:
        transport = httpx.ASGITransport(make_app(key), raise_app_exceptions=False)
        return httpx.AsyncClient(transport=transport, base_url=base_url)

    return make


@pytest_asyncio.fixture
async def http(make_client: MakeClient) -> AsyncIterator[httpx.AsyncClient]:
    async with make_client() as client:
        yield client
