import asyncio

import httpx
import pytest

from app.delivery import hub as hub_module
from app.http import sse
from app.store.db import Database
from app.store.notify import Notifier
from tests.integration.http.rows import Rows
from tests.integration.http.serving import Served
from tests.integration.http.test_holding import listener
from tests.support.polling import eventually, in_time
from tests.support.streams import open_stream

QUEUED = ("run.queued", "run.started")


@pytest.fixture
def http(served: Served) -> httpx.AsyncClient:
    return served.http


@pytest.fixture
def never_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the hub begins."""
    monkeypatch.setattr(hub_module, "POLL_SECONDS", 3600)


@pytest.mark.usefixtures("never_polls")
async def test_a_long_log_comes_whole(http: httpx.AsyncClient, rows: Rows) -> None:
    run = await rows.run(status="succeeded", finished_at="2030-01-01")
    await rows.events(run, *["call.started"] * 350, "run.succeeded")

    async with open_stream(http, run) as stream:
        frames = await stream.rest()

    assert [frame.id for frame in frames] == list(range(1, 352))


async def test_a_parked_run_shows_its_log_at_once_and_then_what_comes(
    http: httpx.AsyncClient, rows: Rows
) -> None:
    run = await rows.run(status="waiting")
    await rows.events(run, *QUEUED, "run.waiting")

    async with open_stream(http, run) as stream:
        assert [frame.id for frame in await stream.take(3)] == [1, 2, 3]
        await rows.events(run, "run.resumed")
        assert (await stream.next()).event == "run.resumed"
        await rows.events(run, "run.succeeded")
        await rows.end(run)
        assert [frame.id for frame in await stream.rest()] == [5]


async def test_an_event_after_the_end_is_part_of_the_stream(
    http: httpx.AsyncClient, rows: Rows
) -> None:
    run = await rows.ended()
    await rows.events(run, "call.reconciled")

    async with open_stream(http, run) as stream:
        assert [frame.id for frame in await stream.rest()] == [1, 2]


async def test_a_run_that_was_resumed_is_followed_past_its_first_end(
    http: httpx.AsyncClient, rows: Rows
) -> None:
    run = await rows.run(status="running")
    await rows.events(run, "run.queued", "run.failed", "run.resumed")

    async with open_stream(http, run, after=2) as stream:
        assert (await stream.next()).event == "run.resumed"
        await rows.events(run, "run.succeeded")
        await rows.end(run)
        assert [frame.event for frame in await stream.rest()] == ["run.succeeded"]


@pytest.mark.usefixtures("never_polls")
async def test_a_notice_is_followed_before_the_next_poll(
    http: httpx.AsyncClient, rows: Rows, database: Database
) -> None:
    await listener(rows)
    run = await rows.run(status="running")
    await rows.events(run, *QUEUED)

    async with open_stream(http, run) as stream:
        await stream.take(2)
        await rows.events(run, "call.started")
        Notifier(database).tell(run)
        assert (await asyncio.wait_for(stream.next(), in_time(5))).id == 3


async def test_a_killed_listener_is_bridged_by_the_poll(
    http: httpx.AsyncClient, rows: Rows
) -> None:
    run = await rows.run(status="running")
    await rows.events(run, *QUEUED)

    async with open_stream(http, run) as stream:
        await stream.take(2)
        await rows.execute("select pg_terminate_backend(%s)", await listener(rows))
        await rows.events(run, "call.started")
        assert (await asyncio.wait_for(stream.next(), in_time(5))).id == 3


async def test_a_stream_says_that_it_lives(
    http: httpx.AsyncClient, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse, "COMMENT_SECONDS", 0.05)
    run = await rows.run(status="running")

    async with open_stream(http, run) as stream:
        waiting = asyncio.create_task(stream.next())

        async def seen() -> bool:
            return stream.comments >= 3

        await eventually(seen, "three comments")
        await rows.events(run, "run.queued")
        assert (await waiting).id == 1


async def test_streams_of_one_run_are_each_whole(http: httpx.AsyncClient, rows: Rows) -> None:
    run = await rows.run(status="running")
    await rows.events(run, *QUEUED)

    async with open_stream(http, run) as first, open_stream(http, run, after=1) as second:
        await first.take(2)
        await rows.events(run, "run.succeeded")
        await rows.end(run)
        assert [frame.id for frame in await first.rest()] == [3]
        assert [frame.id for frame in await second.rest()] == [2, 3]


async def test_nothing_is_left_of_a_client_that_went_away(served: Served, rows: Rows) -> None:
    run = await rows.run(status="running")
    await rows.events(run, *QUEUED)

    async with open_stream(served.http, run) as stream:
        await stream.take(2)
        assert list(served.hub.streams.runs()) == [run]

    async def gone() -> bool:
        return not served.hub.streams.runs() and not served.server.server_state.tasks

    await eventually(gone, "the stream is forgotten")


async def test_a_released_hub_ends_its_streams_at_once(served: Served, rows: Rows) -> None:
    run = await rows.run(status="running")
    await rows.events(run, *QUEUED)

    async with open_stream(served.http, run) as stream:
        await stream.take(2)
        served.hub.release()
        assert await asyncio.wait_for(stream.rest(), in_time(5)) == []


async def test_a_stream_ends_with_a_run_that_is_forgotten(
    http: httpx.AsyncClient, rows: Rows
) -> None:
    run = await rows.run(status="running")

    async with open_stream(http, run) as stream:
        await rows.events(run, "run.queued")
        await stream.next()
        await rows.execute("delete from perdure.events where run = %s", run)
        await rows.execute("delete from perdure.runs where id = %s", run)
        assert await stream.rest() == []
