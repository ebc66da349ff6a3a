"""perdure.submit_run: it writes what POST /v1/runs writes, with the caller's rows or not at all."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest
import pytest_asyncio
from psycopg.conninfo import make_conninfo

from app.services import runs as use
from app.services.context import Caller, Services
from app.store.db import Row, row, rows
from tests.integration.store.gating import are_waiting
from tests.integration.store.shop import refused, register_desk, submit
from tests.integration.store.stage import Stage
from tests.integration.store.test_submission import submission
from tests.support.polling import eventually


@pytest_asyncio.fixture(autouse=True)
async def desk(stage: Stage, audited: None) -> None:
    await register_desk(stage)


async def stored(stage: Stage, run: str) -> Row:
    found = await row(stage.connection, "select * from perdure.runs where id = %(run)s", run=run)
    assert found is not None
    return found


async def _shared(stage: Stage, run: str) -> Row:
    """What two runs that were asked for alike have in common."""
    own = {"id", "root", "session", "trace_id", "place", "created_at"}
    return {name: value for name, value in (await stored(stage, run)).items() if name not in own}


async def leg(stage: Stage, run: str) -> Row | None:
    return await row(
        stage.connection,
        """select name, queue_name, priority, queue_partition_key, application_version,
               application_name, status, recovery_attempts
           from dbos.workflow_status where workflow_uuid = %(leg)s""",
        leg=f"{run}:1",
    )


async def test_of_a_key_that_stands_twice_the_last_value_is_kept(stage: Stage) -> None:
    """Postgres looks at the last one only, and a worker would read them all."""
    hidden = f'[{{"type": "text", "text": "hi", "x": {"9" * 5000}, "x": 1}}]'
    run = await stored(stage, await submit(stage.connection, input=hidden))
    assert run["input"] == [{"type": "text", "text": "hi", "x": 1}]


async def test_it_writes_what_the_api_writes(stage: Stage, services: Services) -> None:
    given: dict[str, Any] = {"session": None, "target": None, "priority": 3, "queue_key": "shop"}
    limits = {"turns": 3, "cost_usd": "1.50", "calls": None}
    mine = await submit(
        stage.connection, **given, limits=json.dumps(limits), metadata='{"order": "7"}'
    )
    theirs = await use.submit(
        services,
        submission(**given, limits=limits, metadata={"order": "7"}),
        Caller("ann"),
        None,
        "f",
    )
    assert await _shared(stage, mine) == await _shared(stage, theirs.run)
    assert await leg(stage, mine) == await leg(stage, theirs.run)
    told = "select seq, type, data from perdure.events where run = %(run)s"
    assert await rows(stage.connection, told, run=mine) == await rows(
        stage.connection, told, run=theirs.run
    )


async def test_without_a_queue_key_a_role_has_its_own(stage: Stage) -> None:
    run = await stored(stage, await submit(stage.connection))
    assert run["queue_key"] == f"sql:{stage.connection.info.user}"


async def test_it_is_there_with_the_callers_rows_or_not_at_all(stage: Stage, other: Stage) -> None:
    await stage.connection.execute("begin")
    run = await submit(stage.connection)
    assert await leg(other, run) is None
    await stage.connection.execute("rollback")
    assert await leg(stage, run) is None
    gone = "select from perdure.runs where id = %(run)s"
    assert await row(stage.connection, gone, run=run) is None


async def test_one_key_is_one_run(stage: Stage) -> None:
    first = await submit(stage.connection, idempotency_key="once", target="k1")
    assert await submit(stage.connection, idempotency_key="once", target="k1") == first
    at = {"idempotency_key": "at", "deadline": "2099-01-01T00:00:00Z"}
    second = await submit(stage.connection, **at)
    async with stage.connection.transaction():
        await stage.connection.execute("set local timezone = 'Asia/Tokyo'")
        assert await submit(stage.connection, **at) == second
    error = await refused(stage, idempotency_key="once", target="k2")
    assert (error.sqlstate, error.diag.message_detail) == (
        "PD422",
        "/problems/idempotency-key-reused",
    )


async def test_a_key_whose_run_was_removed_says_so(stage: Stage) -> None:
    await submit(stage.connection, idempotency_key="gone")
    await stage.connection.execute("update perdure.idempotency set run = null where key = 'gone'")
    error = await refused(stage, idempotency_key="gone")
    assert error.sqlstate == "PD404"
    await stage.connection.execute("delete from perdure.idempotency where key = 'gone'")


async def test_a_key_at_once_over_two_connections_is_one_run(
    stage: Stage, other: Stage, gate: Stage
) -> None:
    await stage.connection.execute("begin")
    first = await submit(stage.connection, idempotency_key="race")
    second = asyncio.create_task(submit(other.connection, idempotency_key="race"))
    await eventually(lambda: are_waiting(gate, 1), "the second waits for the first")
    await stage.connection.execute("commit")
    assert await second == first


async def test_a_session_that_is_busy_holds_the_next_run(
    stage: Stage, other: Stage, gate: Stage
) -> None:
    await stage.connection.execute("begin")
    first = await submit(stage.connection, session="busy", target="order 7")
    second = asyncio.create_task(submit(other.connection, target="order 7"))
    await eventually(lambda: are_waiting(gate, 1), "the second waits for the first")
    await stage.connection.execute("commit")
    held = await second
    assert (await stored(stage, first))["held"] is False
    assert (await stored(stage, held))["held"] is True
    assert await leg(stage, held) is None


async def test_on_busy_is_heeded(stage: Stage) -> None:
    first = await submit(stage.connection, target="order 8")
    error = await refused(stage, target="order 8", on_busy="reject")
    assert (error.sqlstate, error.diag.message_detail) == ("PD409", "/problems/target-busy")
    found = {"target": "order 8", "on_busy": "return_existing", "idempotency_key": "k8"}
    assert [await submit(stage.connection, **found) for _ in range(2)] == [first, first]


async def test_an_older_snapshot_may_not_ask_for_a_session(stage: Stage) -> None:
    """It would not see who holds it by now."""
    await stage.connection.execute("begin isolation level repeatable read")
    error = await refused(stage, session="seen")
    await stage.connection.execute("rollback")
    assert (error.sqlstate, error.diag.column_name) == ("PD422", "session")

    await stage.connection.execute("begin isolation level serializable")
    run = await submit(stage.connection)
    await stage.connection.execute("commit")
    assert await leg(stage, run) is not None


@pytest_asyncio.fixture
async def shop(stage: Stage, shared_url: str) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
    """Another service's role, with no right but the two that the docs name."""
    await stage.connection.execute("create role shop login")
    await stage.connection.execute("grant usage on schema perdure to shop")
    await stage.connection.execute("grant execute on function perdure.submit_run to shop")
    url = make_conninfo(shared_url, user="shop")
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        yield connection
    await stage.connection.execute("drop owned by shop")
    await stage.connection.execute("drop role shop")


async def test_a_role_with_two_grants_can_submit_and_nothing_else(
    stage: Stage, shop: psycopg.AsyncConnection[Any]
) -> None:
    run = await submit(shop)
    assert (await stored(stage, run))["queue_key"] == "sql:shop"
    for statement in (
        "select id from perdure.runs",
        "select perdure.enqueue_leg_one('x', 'y', 0)",
        "select perdure.tell('x', '{}', '{}')",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            await shop.execute(statement)
