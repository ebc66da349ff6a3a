import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
import uvicorn
from starlette.types import ASGIApp

from app.llm.anthropic import AnthropicModel

KEY = "sk-test-canary-4711"
Connect = Callable[..., Awaitable[AnthropicModel]]
Serve = Callable[[ASGIApp], Awaitable[str]]


@asynccontextmanager
async def serving(app: ASGIApp) -> AsyncIterator[str]:
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        app, lifespan="off", ws="none", log_level="critical", timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await task
        listener.close()


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


@pytest.fixture
def serve(stack: AsyncExitStack) -> Serve:
    """Serves an app on a free port until the test is over."""

    async def start(app: ASGIApp) -> str:
        return await stack.enter_async_context(serving(app))

    return start


@pytest.fixture
def connect(stack: AsyncExitStack, serve: Serve) -> Connect:
    """A client of an app that is served until the test is over."""

    async def start(app: ASGIApp, read_seconds: float = 10.0) -> AnthropicModel:
        url = await serve(app)
        model = AnthropicModel(api_key=KEY, base_url=url, read_seconds=read_seconds)
        stack.push_async_callback(model.close)
        return model

    return start
