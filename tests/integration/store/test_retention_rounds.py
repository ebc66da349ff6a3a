"""Rounds of the elected worker, and others at the same runs at the same moment."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import psycopg
import pytest
import pytest_asyncio

from app.domain.ids import new_worker_id
from app.durable import retention as durable
from app.durable.execution import Proof
from app.durable.lease import Lease
from app.durable.liveness import own_identity
from app.durable.retention import Retention
from app.errors import NotFound
from app.services import restarts
from app.services.context import Caller, Services
from app.services.runs import submit
from app.store import retention, workers
from app.store.db import rows
from tests.integration.store.family import family, register
from tests.integration.store.gating import SESSION, one_behind_the_other
from tests.integration.store.stage import Stage
from tests.integration.store.test_retention import DAY, MONTH, age, ended, exists, session_of
from tests.integration.store.test_submission import submission

ANN = Caller("ann")
ROUNDS = 30
# What is kept for so long is looked for each second.
SHORT = 24.0


async def dead_letter(stage: Stage) -> tuple[str, str]:
    """One that has been dead for long; the run and its session."""
    run = await stage.submit()
    assert await stage.end(run, None, "dead_letter") == "ended"
    await age(stage, run, 40)
    return run, await session_of(stage, run)


@pytest.mark.parametrize("first", ["resume", "forget"])
async def test_a_run_that_is_resumed_does_not_vanish(
    stage: Stage, other: Stage, gate: Stage, services: Services, first: str
) -> None:
    run, session = await dead_letter(stage)
    acts: list[Callable[[], Any]] = [
        lambda: restarts.resume(services, run, {}, ANN),
        lambda: retention.forget(other.connection, session, MONTH),
    ]
    if first == "forget":
        acts.reverse()
    answers = await one_behind_the_other(gate, session, acts[0], acts[1], SESSION)

    if first == "resume":
        assert answers == [None, 0]
        assert (await stage.run(run))["status"] == "queued"
        assert await stage.legs(run) == [2]
    else:
        assert answers[0] == 1
        assert isinstance(answers[1], NotFound)
        assert not await exists(stage, run)


async def test_a_run_is_resumed_or_removed_however_the_two_meet(
    stage: Stage, other: Stage, services: Services
) -> None:
    for _ in range(ROUNDS):
        run, session = await dead_letter(stage)
        resumed, gone = await asyncio.gather(
            restarts.resume(services, run, {}, ANN),
            retention.forget(other.connection, session, MONTH),
            return_exceptions=True,
        )
        assert (resumed is None, gone) in ((True, 0), (False, 1)), (resumed, gone)
        assert await exists(stage, run) == (resumed is None)


@pytest.mark.parametrize("first", ["submit", "forget"])
async def test_a_session_that_is_spoken_to_again_is_there(
    stage: Stage, other: Stage, gate: Stage, services: Services, first: str
) -> None:
    await register(stage, "desk")
    old = await ended(stage, 40, target=f"goal of {first}")
    session = await session_of(stage, old)
    asked = submission(session=session, target=f"goal of {first}")
    acts: list[Callable[[], Any]] = [
        lambda: submit(services, asked, ANN, None, "f"),
        lambda: retention.forget(other.connection, session, MONTH),
    ]
    if first == "forget":
        acts.reverse()
    answers = await one_behind_the_other(gate, session, acts[0], acts[1], SESSION)

    assert answers[1 if first == "submit" else 0] == (0 if first == "submit" else 1)
    accepted = answers[0 if first == "submit" else 1]
    assert await session_of(stage, accepted.run) == session
    assert await exists(stage, old) == (first == "submit")


async def test_two_that_remove_the_same_remove_it_once(
    stage: Stage, other: Stage, gate: Stage
) -> None:
    old = await ended(stage, 40)
    session = await session_of(stage, old)
    answers = await one_behind_the_other(
        gate,
        session,
        lambda: retention.forget(stage.connection, session, MONTH),
        lambda: retention.forget(other.connection, session, MONTH),
        SESSION,
    )
    assert answers == [1, 0]


@pytest_asyncio.fixture
async def elected(database_url: str) -> AsyncIterator[Lease]:
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        assert await workers.try_lock(connection, workers.JANITOR, 0)
        identity = own_identity()
        worker = new_worker_id(identity.host, identity.pid)
        yield Lease(database_url, worker, identity, "1", [], 10.0, Proof(), connection=connection)


@pytest.fixture
def keeper(elected: Lease, crowd: Services, monkeypatch: pytest.MonkeyPatch) -> Retention:
    monkeypatch.setattr(durable, "BATCH", 4)
    return Retention(elected, crowd.database, crowd.legs, SHORT)


async def left(stage: Stage, table: str = "perdure.runs") -> int:
    found = await stage.one(f"select count(*) as left from {table}")  # noqa: S608 - our own
    return int(found["left"])


async def look(keeper: Retention, times: int) -> None:
    for _ in range(times):
        await keeper.look()


async def test_a_round_goes_on_in_batches_until_all_is_gone(
    alone: Stage, keeper: Retention
) -> None:
    kept = await alone.submit()
    for _ in range(10):
        await ended(alone, 1)

    await look(keeper, 1)
    assert await left(alone) == 7
    await look(keeper, 2)
    assert await left(alone) == 1
    assert await exists(alone, kept)
    assert await left(alone, "dbos.workflow_status") == 0


async def test_what_has_to_stay_keeps_nothing_else_from_going(
    alone: Stage, keeper: Retention
) -> None:
    for _ in range(9):
        parent = (await family(alone)).id  # its child lives
        assert await alone.end(parent, None, "dead_letter") == "ended"
        await age(alone, parent, 2)
    for _ in range(3):
        await ended(alone, 1)

    await look(keeper, 4)
    assert await left(alone) == 18


async def test_what_is_cut_off_after_the_journal_is_found_again(
    alone: Stage, keeper: Retention, database_url: str
) -> None:
    old = await ended(alone, 1)
    async with await psycopg.AsyncConnection.connect(database_url) as holder:
        session = await session_of(alone, old)
        await holder.execute("select from perdure.sessions where id = %s for update", [session])
        await look(keeper, 1)
        assert await left(alone, "dbos.workflow_status") == 0
        assert await exists(alone, old)
        await look(keeper, 1)
    await asyncio.sleep(1.1)  # the pause between two rounds
    await look(keeper, 1)
    assert not await exists(alone, old)


async def test_only_the_elected_worker_removes(
    alone: Stage, keeper: Retention, elected: Lease
) -> None:
    await ended(alone, 1)
    assert elected.connection is not None
    await elected.connection.execute("select pg_advisory_unlock_all()")

    await look(keeper, 3)
    assert await left(alone) == 1


async def test_nothing_is_removed_where_all_is_to_be_kept(
    alone: Stage, elected: Lease, crowd: Services
) -> None:
    await ended(alone, 10_000)

    await look(Retention(elected, crowd.database, crowd.legs, 0), 3)
    assert await left(alone) == 1


async def test_finding_what_is_old_reads_no_table_whole(alone: Stage) -> None:
    await alone.do("set enable_seqscan = off; set enable_bitmapscan = off")
    for statement in (retention.ENDED, retention.DELIVERIES, retention.KEYS):
        plan = await rows(
            alone.connection,
            " ".join(("explain", statement)),
            seconds=DAY,
            limit=100,
            **retention.START,
        )
        text = "\n".join(line["QUERY PLAN"] for line in plan)
        assert "Seq Scan" not in text, text
        assert "Sort" not in text, text


async def test_removing_what_is_old_reads_no_table_whole(alone: Stage) -> None:
    run = await ended(alone, 40)
    session = await session_of(alone, run)
    await alone.do(
        """insert into dbos.workflow_status (workflow_uuid, status, name)
           select 'other:' || n, 'SUCCESS', 'perdure.leg' from generate_series(1, 20000) n"""
    )
    await alone.do(
        """with made as (insert into perdure.sessions (id)
               select 'ses_' || n from generate_series(1, 20000) n returning id)
           insert into perdure.runs (id, root, agent, agent_version, session, input, limits,
               trace_id, status, finished_at)
           select id, id, 'desk', 'v1', id, '""', '{}', '0', 'succeeded', now() from made"""
    )
    await alone.do("analyze perdure.runs, dbos.workflow_status")
    before = await seq_scans(alone)

    assert await retention.legs(alone.connection, session, MONTH) == [f"{run}:1"]
    assert await retention.forget(alone.connection, session, MONTH) == 1
    assert await seq_scans(alone) == before


async def seq_scans(stage: Stage) -> int:
    """Of the tables that are large here, so far."""
    await stage.do("select pg_stat_force_next_flush()")
    await stage.do("select pg_stat_clear_snapshot()")
    found = await stage.one(
        """select sum(seq_scan) as scans from pg_stat_user_tables
           where (schemaname, relname) in (('perdure', 'runs'), ('dbos', 'workflow_status'))"""
    )
    return int(found["scans"])
