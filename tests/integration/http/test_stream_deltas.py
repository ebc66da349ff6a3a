import httpx
import pytest

from app.domain.canonical import encode
from app.store.watching import DELTAS, WATCH, key_of
from tests.integration.http.rows import Rows
from tests.integration.http.serving import Served
from tests.support.polling import eventually
from tests.support.streams import EventStream, open_stream

WATCHED = """
    select count(*) from pg_locks where locktype = 'advisory' and classid = %s and objid = %s
        and database = (select oid from pg_database where datname = current_database())
"""


@pytest.fixture
def http(served: Served) -> httpx.AsyncClient:
    return served.http


async def watchers(rows: Rows, run: str, count: int) -> None:
    """Returns once so many processes watch the run."""

    async def found() -> bool:
        return await rows.execute(WATCHED, WATCH, key_of(run)) == [(count,)]

    await eventually(found, f"{count} watchers")


async def say(
    rows: Rows, run: str, offset: int, text: str, turn: int = 1, attempt: int = 1
) -> None:
    delta = {"run": run, "turn": turn, "attempt": attempt, "offset": offset, "text": text}
    await rows.execute("select pg_notify(%s, %s)", DELTAS, encode(delta))


async def complete(rows: Rows, run: str, turn: int) -> None:
    await rows.execute(
        """select perdure.tell(%s, array['model.completed'],
               array[json_build_object('turn', %s::int, 'attempt', 1)])""",
        run,
        turn,
    )


async def heard(stream: EventStream) -> tuple[int, int, int, str]:
    frame = await stream.next()
    assert (frame.id, frame.event) == (None, "model.delta")
    assert frame.data.keys() == {"run", "turn", "attempt", "offset", "text"}
    return frame.data["turn"], frame.data["attempt"], frame.data["offset"], frame.data["text"]


async def test_who_asks_hears_the_model_and_who_comes_late_hears_all_of_it(
    http: httpx.AsyncClient, rows: Rows
) -> None:
    run = await rows.run(status="running")
    async with open_stream(http, run, deltas="1") as first:
        await watchers(rows, run, 1)
        await say(rows, run, 0, "Once ")
        assert await heard(first) == (1, 1, 0, "Once ")
        async with open_stream(http, run, deltas="1") as second:
            assert await heard(second) == (1, 1, 0, "Once ")
            await say(rows, run, 5, "upon")
            assert await heard(first) == await heard(second) == (1, 1, 5, "upon")
            await watchers(rows, run, 1)
    await watchers(rows, run, 0)


async def test_who_comes_late_is_shown_the_log_before_what_is_being_said(
    http: httpx.AsyncClient, rows: Rows
) -> None:
    run = await rows.run(status="running")
    await rows.events(run, "run.queued", "run.started")
    async with open_stream(http, run, after=2, deltas="1") as first:
        await watchers(rows, run, 1)
        await say(rows, run, 0, "Once ")
        await heard(first)
        async with open_stream(http, run, deltas="1") as second:
            assert [(await second.next()).id for _ in range(2)] == [1, 2]
            assert await heard(second) == (1, 1, 0, "Once ")


async def test_notices_of_strangers_are_passed_over(http: httpx.AsyncClient, rows: Rows) -> None:
    run = await rows.run(status="running")
    async with open_stream(http, run, deltas="1") as stream:
        await watchers(rows, run, 1)
        for payload in ("x", "7", "[" * 7000, "{}", encode({"run": run, "turn": "1"})):
            await rows.execute("select pg_notify(%s, %s)", DELTAS, payload)
        await say(rows, run, 0, "Once ")
        assert await heard(stream) == (1, 1, 0, "Once ")


async def test_who_does_not_ask_hears_only_what_is_stored(
    http: httpx.AsyncClient, rows: Rows
) -> None:
    run = await rows.run(status="running")
    async with open_stream(http, run, deltas="1") as asking, open_stream(http, run) as other:
        await watchers(rows, run, 1)
        await say(rows, run, 0, "Once ")
        await heard(asking)
        await rows.events(run, "run.started")
        assert (await other.next()).id == (await asking.next()).id == 1


async def test_no_delta_follows_the_answer_that_supersedes_it(
    http: httpx.AsyncClient, rows: Rows
) -> None:
    run = await rows.run(status="running")
    async with open_stream(http, run, deltas="1") as stream:
        await watchers(rows, run, 1)
        await complete(rows, run, 1)
        assert (await stream.next()).event == "model.completed"
        await say(rows, run, 0, "late", turn=1, attempt=2)
        await say(rows, run, 0, "next", turn=2)
        assert await heard(stream) == (2, 1, 0, "next")


async def test_a_late_piece_of_an_older_attempt_is_left_out(
    http: httpx.AsyncClient, rows: Rows
) -> None:
    run = await rows.run(status="running")
    async with open_stream(http, run, deltas="1") as stream:
        await watchers(rows, run, 1)
        await say(rows, run, 0, "new", attempt=2)
        assert await heard(stream) == (1, 2, 0, "new")
        await say(rows, run, 9, "old", attempt=1)
        await say(rows, run, 3, "er", attempt=2)
        assert await heard(stream) == (1, 2, 3, "er")


async def test_a_stream_that_begins_after_a_turn_hears_no_more_of_it(
    http: httpx.AsyncClient, rows: Rows
) -> None:
    run = await rows.run(status="running")
    await rows.turn(run, 1, finished_at="2030-01-01", content=[], stop_reason="end_turn", usage={})
    await complete(rows, run, 1)
    async with open_stream(http, run, after=1, deltas="1") as stream:
        await watchers(rows, run, 1)
        await say(rows, run, 0, "late")
        await say(rows, run, 0, "next", turn=2)
        assert await heard(stream) == (2, 1, 0, "next")


async def test_a_watch_outlives_the_connection_it_stood_on(
    http: httpx.AsyncClient, rows: Rows
) -> None:
    run = await rows.run(status="running")
    async with open_stream(http, run, deltas="1") as stream:
        await watchers(rows, run, 1)
        await rows.execute(
            "select pg_terminate_backend(pid) from pg_locks where classid = %s", WATCH
        )
        await watchers(rows, run, 0)
        await watchers(rows, run, 1)
        await say(rows, run, 0, "again")
        assert await heard(stream) == (1, 1, 0, "again")


@pytest.mark.parametrize(("deltas", "status"), [("1", 200), ("0", 200), ("yes", 422)])
async def test_the_switch_is_1_or_0(
    http: httpx.AsyncClient, rows: Rows, deltas: str, status: int
) -> None:
    run = await rows.ended()

    response = await http.get(
        f"/v1/runs/{run}/events?deltas={deltas}", headers={"Accept": "text/event-stream"}
    )

    assert response.status_code == status
