"""What ended long ago goes as a whole; what lives, and what that has need of, stays."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from app.domain.ids import new_message_id, new_run_id, new_session_id
from app.errors import NotFound
from app.services.context import Caller, Services
from app.services.runs import submit
from app.store import messages, retention, runs, sessions, turns, workers
from app.store.audit import audit
from tests.integration.store.conftest import serving
from tests.integration.store.family import family, register, settle
from tests.integration.store.stage import ALLOW, Stage
from tests.integration.store.test_submission import submission
from tests.support.inspection import dump

DAY = 86400.0
MONTH = 30 * DAY
ANN = Caller("ann")


@pytest_asyncio.fixture
async def desk(alone: Stage) -> Stage:
    await register(alone, "desk")
    return alone


@pytest_asyncio.fixture
async def served(desk: Stage, database_url: str) -> AsyncIterator[Services]:
    async with serving(database_url, connections=4) as services:
        yield services


async def ended(stage: Stage, days: float, **values: Any) -> str:
    """A run of one turn that succeeded so long ago, with a call, a message and a leg."""
    run, fence, call = await stage.calling(**values)
    await messages.insert(stage.connection, new_message_id(), run, "and hurry")
    at = stage.place(run, fence, call)
    assert await stage.start(at) == "ok"
    assert await stage.finish(at) == "ok"
    await stage.turn(run, fence, 2)
    assert await stage.end(run, fence, "succeeded") == "ended"
    await stage.journal(run, "SUCCESS", leg=1)
    await age(stage, run, days)
    return run


async def age(stage: Stage, run: str, days: float) -> None:
    await stage.do(
        """update perdure.runs set finished_at = finished_at - make_interval(secs => %(seconds)s)
           where id = %(run)s""",
        run=run,
        seconds=days * DAY,
    )


async def session_of(stage: Stage, run: str) -> str:
    return str((await stage.run(run))["session"])


async def forget(stage: Stage, run: str, seconds: float = MONTH) -> int:
    return await retention.forget(stage.connection, await session_of(stage, run), seconds)


async def exists(stage: Stage, run: str) -> bool:
    found = await stage.one(
        "select exists (select from perdure.runs where id = %(run)s) as found", run=run
    )
    return bool(found["found"])


async def test_nothing_is_left_of_a_run_that_went(desk: Stage, database_url: str) -> None:
    run = await ended(desk, 31, target="order-7", callback="https://a.example/")
    session = await session_of(desk, run)
    await desk.do("update perdure.deliveries set state = 'dead'")
    await spend(desk, run, "a key", days=31)
    kept = await ended(desk, 29)

    assert await retention.legs(desk.connection, session, MONTH) == [f"{run}:1"]
    assert await forget(desk, run) == 1

    left = dump(database_url).replace(f"{run}:", "")
    assert (run[4:] in left, session in left, "order-7" in left) == (False, False, False)
    assert kept in left
    assert await audit(desk.connection) == []


async def test_a_young_end_stays_and_so_does_what_has_not_ended(desk: Stage) -> None:
    young = await ended(desk, 29)
    queued = await desk.submit()
    running, *_ = await desk.calling()
    asking, fence, call = await desk.calling()
    await desk.ask(asking, fence, call)
    assert await desk.park(asking, fence) == "parked"

    for run in (young, queued, running, asking):
        assert await forget(desk, run) == 0
        assert await retention.legs(desk.connection, await session_of(desk, run), MONTH) == []
        assert await exists(desk, run)


async def test_a_session_goes_only_as_a_whole(desk: Stage) -> None:
    old = await ended(desk, 40)
    session = await session_of(desk, old)
    young = await ended(desk, 20, session=session)

    assert await forget(desk, old) == 0
    await age(desk, young, 20)
    assert await forget(desk, old) == 2


@pytest.mark.parametrize("late", ["parent", "child", "neither"])
async def test_children_go_with_their_parent_and_hold_it(desk: Stage, late: str) -> None:
    found = await family(desk)
    assert (await settle(desk, found.child, await desk.take(found.child)))[0] == "ended"
    fence = await desk.take(found.id, "w2")
    await desk.turn(found.id, fence, 2)
    assert (await settle(desk, found.id, fence))[0] == "ended"
    await age(desk, found.id, 20 if late == "parent" else 40)
    await age(desk, found.child, 20 if late == "child" else 40)

    for member in (found.child, found.id):
        went = await forget(desk, member)
        assert went == (2 if late == "neither" else 0)
        if went:
            break
    assert await exists(desk, found.child) == await exists(desk, found.id) == (late != "neither")
    assert await audit(desk.connection) == []


async def test_a_dead_letter_with_a_child_that_lives_stays(desk: Stage) -> None:
    found = await family(desk)
    assert await desk.end(found.id, None, "dead_letter") == "ended"
    await age(desk, found.id, 40)

    assert await forget(desk, found.id) == 0


async def fork(stage: Stage, source: str) -> str:
    run, session = new_run_id(), new_session_id()
    async with stage.connection.transaction():
        await sessions.make(stage.connection, session, None)
        verdict = await runs.fork(stage.connection, source, 1, run, session, "f" * 32, "ann")
    assert verdict == "forked"
    return run


async def test_a_fork_lives_on_without_its_source(desk: Stage) -> None:
    source = await ended(desk, 40)
    run = await fork(desk, source)
    before = await turns.history(desk.connection, run)

    assert await forget(desk, source) == 1
    assert await turns.history(desk.connection, run) == before
    assert (await desk.run(run))["forked_from"] == source
    assert await audit_of_content(desk) == []


async def test_what_was_said_before_the_source_of_a_fork_stays_with_the_fork(desk: Stage) -> None:
    first = await ended(desk, 40)
    source = await ended(desk, 39, session=await session_of(desk, first))
    run = await fork(desk, source)
    forked_again = await fork(desk, run)
    before = await turns.history(desk.connection, forked_again)

    assert await forget(desk, source) == 0
    await desk.cancel(run, None)
    await age(desk, run, 40)
    assert await forget(desk, run) == 0
    assert await turns.history(desk.connection, forked_again) == before


async def audit_of_content(stage: Stage) -> list[str]:
    """Less what is said of legs, which nobody enqueues here."""
    return [each for each in await audit(stage.connection) if "journal" not in each]


async def test_a_rule_outlives_the_run_it_was_made_in_unless_it_was_for_that(desk: Stage) -> None:
    for scope in ("agent", "session", "run"):
        run, fence, call = await desk.calling()
        wait = await desk.ask(run, fence, call)
        await desk.resolve(wait, ALLOW)
        await desk.do(
            """insert into perdure.rules (id, scope, agent, session, run, tool, conditions, wait,
                   author, made_via)
               select %(scope)s, %(scope)s, 'desk', session, id, 'pay', '{}', %(wait)s, 'a', 'http'
               from perdure.runs where id = %(run)s""",
            scope=scope,
            run=run,
            wait=wait,
        )
        await desk.park(run, fence)
        await desk.cancel(run, None)
        await age(desk, run, 40)
        assert await forget(desk, run) == 1
    left = await desk.connection.execute("select scope from perdure.rules")
    assert await left.fetchall() == [("agent",)]


async def spend(stage: Stage, run: str, key: str, days: float) -> None:
    await stage.do(
        """insert into perdure.idempotency (caller, key, fingerprint, run, created_at)
           values ('ann', %(key)s, 'f', %(run)s, now() - make_interval(secs => %(seconds)s))""",
        run=run,
        key=key,
        seconds=days * DAY,
    )


async def test_a_key_outlives_its_run_for_a_month(desk: Stage, served: Services) -> None:
    run = await ended(desk, 2)
    await spend(desk, run, "young", days=29)
    await spend(desk, run, "old", days=31)
    assert await forget(desk, run, DAY) == 1
    await retention.forget_others(desk.connection, DAY, 100)

    with pytest.raises(NotFound, match="removed"):
        await submit(served, submission(), ANN, "young", "f")
    assert not (await submit(served, submission(), ANN, "old", "f")).replayed


async def test_workers_and_deliveries_go_when_nobody_asks_for_them(desk: Stage) -> None:
    run, fence, call = await desk.calling(worker="busy", callback="https://a.example/")
    await desk.start(desk.place(run, fence, call, worker="busy"))
    for worker, days in (("busy", 40), ("old", 40), ("young", 20)):
        await desk.worker(worker)
        await workers.give_up(desk.connection, worker, "exited")
        await desk.do(
            """update perdure.workers set dead_at = dead_at - make_interval(secs => %(seconds)s)
               where id = %(worker)s""",
            worker=worker,
            seconds=days * DAY,
        )
    await desk.worker("alive")
    await desk.do(
        """insert into perdure.deliveries (id, run, seq, type, state, created_at, delivered_at)
           select state, %(run)s, place, 'run.queued', state, now() - interval '40 days',
               case state when 'delivered' then now() end
           from unnest('{pending,delivered,dead}'::text[]) with ordinality kinds (state, place)
           on conflict (run, seq) do update set state = excluded.state,
               created_at = excluded.created_at, delivered_at = excluded.delivered_at""",
        run=run,
    )

    assert await retention.forget_others(desk.connection, MONTH, 100) == 3
    left = await desk.connection.execute("select id from perdure.workers order by id")
    assert [each for (each,) in await left.fetchall()] == ["alive", "busy", "young"]
    left = await desk.connection.execute("select state from perdure.deliveries")
    assert [each for (each,) in await left.fetchall()] == ["pending"]
