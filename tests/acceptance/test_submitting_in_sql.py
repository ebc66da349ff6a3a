"""Runs that another service submits in its own transaction are carried like all others."""

import asyncio
import json
import threading
from typing import Any

import psycopg
import pytest

from tests.support.client import Client
from tests.support.deployment import Deployment
from tests.support.scripts import refuse, say, script, use
from tests.support.world import World

pytestmark = pytest.mark.mended

SUBMIT = "select perdure.submit_run(agent => 'desk', input => %s, session => %s)"


def submit(connection: psycopg.Connection[Any], *steps: Any, session: str | None = None) -> str:
    found = connection.execute(SUBMIT, (json.dumps(script(*steps)), session)).fetchone()
    assert found is not None
    return str(found[0])


async def test_an_order_and_its_run_are_committed_together(
    client: Client, deployment: Deployment
) -> None:
    with psycopg.connect(deployment.database_url) as connection:
        connection.execute("create table orders (id text, run text)")
        run = submit(connection, use("count", name="sql-a"), say("counted"))
        connection.execute("insert into orders values ('7', %s)", (run,))
        assert (await client.http.get(f"/v1/runs/{run}")).status_code == 404
    done = await client.succeeded(run)
    assert done["output"]["text"] == "counted"
    with psycopg.connect(deployment.database_url) as connection:
        lost = submit(connection, say("never"))
        connection.rollback()
    assert (await client.http.get(f"/v1/runs/{lost}")).status_code == 404


async def test_kill_after_effect_before_outcome_repeats_nothing_of_a_run_from_sql(
    world: World, client: Client, deployment: Deployment
) -> None:
    gate = world.gate("pay:after")
    with psycopg.connect(deployment.database_url) as connection:
        run = submit(connection, use("pay_idem", ref="sql-kill"), say("paid"))
    await gate.reached()
    await deployment.crash()
    gate.open()
    done = await client.succeeded(run)
    assert done["usage"]["repaid_model_calls"] == 0
    assert len(world.payments.rows_for("sql-kill")) == 1
    assert len(world.payments.calls_for("sql-kill")) == 2


async def test_a_run_from_sql_waits_for_the_session_that_is_busy(
    client: Client, deployment: Deployment
) -> None:
    first = await client.submit(use("refund", ref="sql-b"), say("done"), session="sql-busy")
    wait = await client.open_wait(first["id"])
    with psycopg.connect(deployment.database_url) as connection:
        run = submit(connection, say("after you"), session="sql-busy")
    assert (await client.run(run))["status"] == "queued"
    await client.allow(wait["id"])
    await client.succeeded(run)


async def test_a_transaction_that_stays_open_holds_up_only_the_runs_of_its_sessions(
    world: World, client: Client, deployment: Deployment
) -> None:
    gate = world.gate("llm:0", span=25)
    held = [await client.submit(say("held"), session=f"sql-open-{n}") for n in range(25)]
    await gate.reached(holding=25)
    with psycopg.connect(deployment.database_url) as connection:
        for n in range(25):
            submit(connection, say("later"), session=f"sql-open-{n}")
        gate.open()
        other = await client.submit(say("not of these"))
        await client.succeeded(other["id"])
        assert {(await client.run(run["id"]))["status"] for run in held} == {"running"}
        connection.rollback()
    for run in held:
        await client.succeeded(run["id"])


async def test_a_session_that_others_hold_by_turns_without_end_lets_its_run_end(
    world: World, client: Client, deployment: Deployment
) -> None:
    gate = world.gate("llm:0")
    run = await client.submit(say("held"), session="sql-turns")
    await gate.reached()
    over = threading.Event()

    def hold_again_and_again() -> None:
        with psycopg.connect(deployment.database_url, autocommit=True) as connection:
            while not over.is_set():
                with connection.transaction():
                    connection.execute("select perdure.lock_place('sql-turns', null)")
                    connection.execute("select pg_sleep(0.3)")

    holders = [asyncio.create_task(asyncio.to_thread(hold_again_and_again)) for _ in range(3)]
    try:
        gate.open()
        await client.succeeded(run["id"])
    finally:
        over.set()
        await asyncio.gather(*holders)


async def test_what_the_model_refuses_ends_as_a_failed_run(
    client: Client, deployment: Deployment
) -> None:
    with psycopg.connect(deployment.database_url) as connection:
        run = submit(connection, refuse(400))
    assert (await client.wait_for(run, "failed"))["reason"] == "model_error"


async def test_a_run_whose_agent_has_no_worker_says_so(
    client: Client, deployment: Deployment
) -> None:
    with psycopg.connect(deployment.database_url) as connection:
        for statement in (
            "insert into perdure.agent_versions select 'gone', version, definition "
            "from perdure.agent_versions where agent = 'desk' limit 1",
            "insert into perdure.agents select 'gone', version from perdure.agent_versions "
            "where agent = 'gone'",
        ):
            connection.execute(statement)
        found = connection.execute(
            "select perdure.submit_run('gone', to_json('hello'::text))"
        ).fetchone()
    assert found is not None
    run = str(found[0])
    assert (await client.run(run))["stalled"] == "no worker has agent gone"
    await client.cancel(run)
    await client.wait_for(run, "cancelled")
