"""Bodies in hand: stopped from any thread, or told and waited for."""

import asyncio
import contextlib
import threading

import pytest

import app.durable.bodies
from app.durable.bodies import Bodies, Body, Stopped
from tests.support.polling import eventually


async def in_hand(bodies: Bodies, count: int = 1) -> Body:
    async def found() -> bool:
        return len(bodies.in_hand()) == count

    await eventually(found, f"{count} bodies are in hand")
    return bodies.in_hand()[0]


async def give(value: str) -> str:
    await asyncio.sleep(0)
    return value


async def never() -> str:
    await asyncio.Event().wait()
    raise AssertionError("nothing sets the event")


async def test_a_body_gives_its_result_and_is_let_go() -> None:
    bodies = Bodies()

    assert await bodies.run("run_1", 3, give("done")) == "done"
    assert bodies.in_hand() == []


async def test_what_a_body_raises_is_raised() -> None:
    async def fail() -> None:
        raise KeyError("x")

    bodies = Bodies()
    with pytest.raises(KeyError):
        await bodies.run("run_1", 3, fail())
    assert bodies.in_hand() == []


async def test_a_body_is_found_by_its_run_and_fence() -> None:
    bodies = Bodies()
    running = asyncio.ensure_future(bodies.run("run_1", 3, never()))

    body = await in_hand(bodies)

    assert (body.run, body.fence) == ("run_1", 3)
    body.cancel()
    with pytest.raises(Stopped):
        await running


async def test_a_body_is_cancelled_from_another_thread() -> None:
    bodies, cancelled = Bodies(), threading.Event()
    running = asyncio.ensure_future(bodies.run("run_1", 3, never(), cancelled=cancelled))
    body = await in_hand(bodies)

    await asyncio.to_thread(body.cancel)

    with pytest.raises(Stopped):
        await asyncio.wait_for(running, 5)
    assert cancelled.is_set()
    assert bodies.in_hand() == []


async def test_what_runs_in_a_thread_is_told_and_waited_for() -> None:
    bodies, cancelled = Bodies(), threading.Event()
    work = asyncio.to_thread(cancelled.wait, 10)
    running = asyncio.ensure_future(
        bodies.run("run_1", 3, work, cancelled=cancelled, stoppable=False)
    )
    body = await in_hand(bodies)

    body.cancel()

    assert await asyncio.wait_for(running, 5) is True  # the thread's own answer


async def test_a_thread_that_does_not_listen_is_still_waited_for() -> None:
    bodies, release = Bodies(), threading.Event()
    running = asyncio.ensure_future(
        bodies.run("run_1", 3, asyncio.to_thread(release.wait, 10), stoppable=False)
    )
    (await in_hand(bodies)).cancel()

    done, _ = await asyncio.wait({running}, timeout=0.05)
    assert not done
    release.set()
    assert await asyncio.wait_for(running, 5) is True


async def test_a_body_that_cleans_up_after_its_cancel_is_waited_for() -> None:
    cleaned: list[str] = []

    async def careful() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.append("up")

    bodies = Bodies()
    running = asyncio.ensure_future(bodies.run("run_1", 3, careful()))
    (await in_hand(bodies)).cancel()

    with pytest.raises(Stopped):
        await running
    assert cleaned == ["up"]


async def test_a_body_that_finishes_in_spite_of_its_cancel_keeps_its_result() -> None:
    async def stubborn() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "done all the same"
        raise AssertionError("nothing sets the event")

    bodies = Bodies()
    running = asyncio.ensure_future(bodies.run("run_1", 3, stubborn()))
    body = await in_hand(bodies)
    body.cancel()
    body.cancel()

    assert await running == "done all the same"


async def test_a_tool_that_cancels_itself_is_cancelled() -> None:
    async def leak() -> None:
        raise asyncio.CancelledError

    with pytest.raises(Stopped):
        await Bodies().run("run_1", 3, leak())


async def test_a_body_has_so_long_and_no_longer() -> None:
    with pytest.raises(Stopped) as stopped:
        await Bodies().run("run_1", 3, never(), seconds=0.05)

    assert (stopped.value.timed_out, stopped.value.over) == (True, True)


async def test_a_thread_is_left_behind_when_its_time_is_up() -> None:
    release, cancelled = threading.Event(), threading.Event()
    work = asyncio.to_thread(release.wait, 10)

    with pytest.raises(Stopped) as stopped:
        await Bodies().run("run_1", 3, work, cancelled=cancelled, stoppable=False, seconds=0.05)

    release.set()
    assert (stopped.value.timed_out, stopped.value.over) == (True, False)
    assert cancelled.is_set()


async def test_a_body_that_ignores_its_end_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app.durable.bodies, "STOPPING_SECONDS", 0.05)
    release = asyncio.Event()

    async def ignore() -> None:
        while not release.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await release.wait()

    with pytest.raises(Stopped) as stopped:
        await Bodies().run("run_1", 3, ignore(), seconds=0.05)

    release.set()
    assert not stopped.value.over


async def test_the_body_goes_down_with_the_process() -> None:
    bodies, stopped = Bodies(), asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    running = asyncio.ensure_future(bodies.run("run_1", 3, work()))
    await in_hand(bodies)
    running.cancel()

    with pytest.raises(asyncio.CancelledError):
        await running
    await asyncio.wait_for(stopped.wait(), 5)
    assert bodies.in_hand() == []


async def test_one_body_is_cancelled_and_its_neighbours_run_on() -> None:
    bodies = Bodies()
    stopped = asyncio.ensure_future(bodies.run("run_1", 3, never()))
    await in_hand(bodies)
    release = asyncio.Event()
    neighbour = asyncio.ensure_future(bodies.run("run_2", 1, release.wait()))
    await in_hand(bodies, 2)

    for body in bodies.in_hand():
        if body.run == "run_1":
            body.cancel()

    with pytest.raises(Stopped):
        await stopped
    release.set()
    assert await neighbour is True
