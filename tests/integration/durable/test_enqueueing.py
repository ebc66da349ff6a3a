"""Legs on their queue: what stands there, once, and how one is given back."""

import asyncio

import psycopg
import pytest
from dbos._error import DBOSWorkflowIDInUseError
from sqlalchemy.exc import OperationalError

from app.durable import names
from app.durable.enqueue import Legs
from app.store.db import Connection, Database, row, rows
from tests.integration.durable.journal import status
from tests.integration.store.stage import Stage
from tests.support.polling import in_time


async def enqueue(url: str, legs: Legs, run: str, leg: int = 1, *, fail: bool = False) -> None:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        if await row(connection, "select from perdure.runs where id = %(run)s", run=run) is None:
            await Stage(connection).submit(id=run, queue_key="acme", priority=3)
    async with Database(url, size=1, patience=5) as database, database.transaction() as transaction:
        await legs.enqueue(transaction, run, leg)
        if fail:
            raise ValueError("the transaction is rolled back")


async def test_a_leg_is_enqueued_with_what_its_worker_will_look_for(
    database_url: str, onlooker: Connection
) -> None:
    legs = Legs(database_url)

    await enqueue(database_url, legs, "run_1")

    found = await row(onlooker, "select * from dbos.workflow_status")
    assert found is not None
    expected = {
        "workflow_uuid": "run_1:1",
        "status": "ENQUEUED",
        "name": names.LEG,
        "queue_name": names.RUNS,
        "queue_partition_key": "acme",
        "priority": 4,
        "application_version": names.APPLICATION_VERSION,
        "executor_id": None,
        "serialization": "perdure_json",
    }
    assert {name: found[name] for name in expected} == expected
    legs.close()


async def test_a_rolled_back_transaction_leaves_no_leg(
    database_url: str, onlooker: Connection
) -> None:
    legs = Legs(database_url)

    with pytest.raises(ValueError, match="rolled back"):
        await enqueue(database_url, legs, "run_1", fail=True)

    assert await rows(onlooker, "select * from dbos.workflow_status") == []
    legs.close()


async def test_a_leg_that_is_there_already_is_refused(
    database_url: str, onlooker: Connection
) -> None:
    legs = Legs(database_url)
    await enqueue(database_url, legs, "run_1")

    with pytest.raises(DBOSWorkflowIDInUseError):
        await enqueue(database_url, legs, "run_1")

    await enqueue(database_url, legs, "run_1", 2)
    assert len(await rows(onlooker, "select * from dbos.workflow_status")) == 2
    legs.close()


async def test_a_pending_leg_is_given_back_to_its_own_queue(
    database_url: str, onlooker: Connection
) -> None:
    legs = Legs(database_url)
    await enqueue(database_url, legs, "run_1")
    await onlooker.execute(
        """update dbos.workflow_status
           set status = 'PENDING', executor_id = 'dead', owner_xid = 'x', recovery_attempts = 7"""
    )

    await asyncio.to_thread(legs.resume, "run_1:1", names.RUNS)

    found = await row(
        onlooker,
        """select status, queue_name, queue_partition_key, owner_xid, recovery_attempts
           from dbos.workflow_status""",
    )
    assert found == {
        "status": "ENQUEUED",
        "queue_name": names.RUNS,
        "queue_partition_key": "acme",
        "owner_xid": None,
        "recovery_attempts": 0,
    }
    legs.close()


@pytest.mark.parametrize("over", ["SUCCESS", "ERROR"])
async def test_a_leg_that_is_over_is_not_run_again(
    database_url: str, onlooker: Connection, over: str
) -> None:
    legs = Legs(database_url)
    await enqueue(database_url, legs, "run_1")
    await onlooker.execute("update dbos.workflow_status set status = %s", [over])

    await asyncio.to_thread(legs.resume, "run_1:1", names.RUNS)

    assert await status(onlooker, "run_1:1") == over
    legs.close()


async def test_a_leg_that_somebody_holds_locked_is_not_waited_for_without_end(
    database_url: str, onlooker: Connection
) -> None:
    legs = Legs(database_url)
    await enqueue(database_url, legs, "run_1")
    await onlooker.execute("update dbos.workflow_status set status = 'PENDING'")

    async with onlooker.transaction():
        await onlooker.execute("select from dbos.workflow_status for update")
        async with asyncio.timeout(in_time(20)):
            with pytest.raises(OperationalError, match="lock timeout"):
                await asyncio.to_thread(legs.resume, "run_1:1", names.RUNS)
    legs.close()
