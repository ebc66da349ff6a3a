"""However a tool ends, it ends its call and nothing else."""

import asyncio
import threading

import pytest

from app import ToolContext, ToolError, tool
from app.errors import Fenced
from app.tools.declare import Tool
from app.tools.errors import ToolAborted
from tests.unit.tools.contexts import make_context


def raising(error: BaseException) -> list[Tool]:
    @tool(name="sync")
    def in_thread() -> None:
        raise error

    @tool(name="async")
    async def in_loop() -> None:
        raise error

    return [in_thread, in_loop]


@pytest.mark.parametrize("error", [ToolError("no"), ValueError("boom"), Fenced("lost")])
async def test_an_exception_arrives_as_it_is(error: BaseException) -> None:
    for declared in raising(error):
        with pytest.raises(type(error)) as arrived:
            await declared.invoke(make_context(), {})
        assert arrived.value is error


@pytest.mark.parametrize("error", [SystemExit(3), asyncio.CancelledError()])
async def test_what_would_end_the_worker_is_an_ordinary_exception(error: BaseException) -> None:
    for declared in raising(error):
        with pytest.raises(ToolAborted, match=f"raised {type(error).__name__}"):
            await declared.invoke(make_context(), {})


async def test_stop_iteration_from_a_thread_does_not_hang() -> None:
    with pytest.raises(ToolAborted, match="raised StopIteration"):
        await raising(StopIteration())[0].invoke(make_context(), {})


async def test_cancelling_the_call_cancels_an_async_tool() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    @tool
    async def work() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    call = asyncio.create_task(work.invoke(make_context(), {}))
    await begun.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert ended.is_set()


async def test_a_thread_outlives_the_wait_for_it_and_sees_the_cancel() -> None:
    begun, stopped, cancelled = threading.Event(), threading.Event(), threading.Event()
    threads: list[threading.Thread] = []
    complaints: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, what: complaints.append(what))

    @tool
    def work(ctx: ToolContext) -> None:
        threads.append(threading.current_thread())
        begun.set()
        cancelled.wait(10)
        if ctx.cancelled:
            stopped.set()

    ctx = make_context(cancelled=cancelled)
    call = asyncio.create_task(work.invoke(ctx, {}))
    await asyncio.to_thread(begun.wait, 10)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert not ctx.cancelled
    cancelled.set()
    (thread,) = threads
    await asyncio.to_thread(thread.join, 10)
    assert stopped.is_set()
    assert thread.daemon
    await asyncio.sleep(0)
    assert complaints == []


async def test_many_sync_tools_block_at_the_same_time() -> None:
    together = threading.Barrier(64)

    @tool
    def meet() -> int:
        return together.wait(10)

    calls = [meet.invoke(make_context(), {}) for _ in range(64)]
    assert sorted(await asyncio.gather(*calls)) == list(range(64))  # type: ignore[type-var]
