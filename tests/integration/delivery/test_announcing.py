"""Which events are written down for a callback, in the transaction that tells them."""

import psycopg

from app.store import events, runs
from app.store.db import rows
from tests.integration.delivery.deliveries import of, types
from tests.integration.store.stage import ALLOW, Stage

URL = "https://hooks.example/run"


async def test_a_run_without_a_callback_leaves_nothing(stage: Stage) -> None:
    run = await stage.submit()
    await stage.end(run, await stage.take(run), "succeeded")

    assert await of(stage, run) == []


async def test_a_start_is_no_news_and_an_end_is(stage: Stage) -> None:
    run = await stage.submit(callback=URL)
    await stage.end(run, await stage.take(run), "succeeded")

    assert await stage.told(run) == ["run.queued", "run.started", "run.succeeded"]
    first, last = await of(stage, run)
    assert (first["type"], first["seq"]) == ("run.queued", 1)
    assert (last["type"], last["seq"]) == ("run.succeeded", 3)
    assert first["id"] == f"hook_{run.removeprefix('run_')}_1"


async def test_a_question_is_news_and_so_is_what_follows(stage: Stage) -> None:
    run, fence, call = await stage.calling(callback=URL)
    await stage.hold(stage.place(run, fence, call, 0), "approval")
    assert await stage.park(run, fence) == "parked"
    await stage.resolve(await stage.open_wait(call), ALLOW)
    await stage.take(run)

    assert await types(stage, run) == ["run.queued", "run.waiting", "run.resumed"]


async def test_a_pause_is_no_news_and_neither_is_its_end(stage: Stage) -> None:
    run, fence, call = await stage.calling(callback=URL)
    at = stage.place(run, fence, call)
    assert await stage.start(at) == "ok"
    await stage.hold(at, "timer", seconds=0.0, attempt_ended="raised")
    assert await stage.park(run, fence) == "parked"
    await stage.do("select perdure.expire_due(id) from perdure.waits where run = %(run)s", run=run)
    await stage.take(run)

    assert "run.resumed" in await stage.told(run)
    assert await types(stage, run) == ["run.queued"]


async def test_a_run_that_is_reopened_has_news_once(stage: Stage) -> None:
    run = await stage.submit(callback=URL)
    await stage.end(run, await stage.take(run), "failed", reason="limit_turns")
    limits = {**(await stage.run(run))["limits"], "turns": 60}
    answer = await runs.reopen(stage.connection, run, limits, "ann")
    assert answer["verdict"] == "reopened"
    await stage.take(run)

    assert (await stage.told(run))[-2:] == ["run.resumed", "run.resumed"]
    assert await types(stage, run) == ["run.queued", "run.failed", "run.resumed"]


async def test_a_takeover_is_no_news(stage: Stage) -> None:
    run = await stage.submit(callback=URL)
    await stage.take(run, "w1")
    await stage.take(run, "w2")

    assert (await stage.told(run))[-2:] == ["run.taken_over", "run.resumed"]
    assert await types(stage, run) == ["run.queued"]


async def test_of_a_child_only_what_it_needs_is_news(stage: Stage) -> None:
    parent, _, call = await stage.calling(callback=URL)
    child = await stage.submit()
    await stage.do(
        """update perdure.runs set parent = %(parent)s, delegated_by = %(call)s,
               callback = (select callback from perdure.runs where id = %(parent)s)
           where id = %(child)s""",
        parent=parent,
        call=call,
        child=child,
    )
    for kind in ("timer", "child", "approval"):
        waits = [{"id": "wait_1", "kind": kind, "call": None}]
        await events.tell(stage.connection, child, "run.waiting", waits=waits)
    await events.tell(stage.connection, child, "run.resumed")
    await events.tell(stage.connection, child, "wait.reminder")
    await events.tell(stage.connection, child, "run.succeeded")

    assert [(each["type"], each["seq"]) for each in await of(stage, child)] == [
        ("run.waiting", 4),
        ("wait.reminder", 6),
    ]


async def test_what_is_not_committed_is_not_there(stage: Stage, database_url: str) -> None:
    async with await psycopg.AsyncConnection.connect(database_url) as own:
        run = await Stage(own).submit(callback=URL)
        assert len(await rows(own, "select from perdure.deliveries")) == 1
        assert await of(stage, run) == []
        await own.rollback()

    assert await of(stage, run) == []
