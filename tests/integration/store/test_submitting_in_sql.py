"""perdure.submit_run: what SQL refuses at once, and that it writes what POST /v1/runs writes."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any, LiteralString

import psycopg
import pytest
import pytest_asyncio
from psycopg.conninfo import make_conninfo

from app.domain.limits import Limits
from app.services import runs as use
from app.services.context import Caller, Services
from app.store import agents
from app.store.db import Row, row, rows
from tests.integration.store.gating import are_waiting
from tests.integration.store.stage import Stage
from tests.integration.store.test_submission import submission
from tests.support.polling import eventually

SUBMIT: LiteralString = """
    select perdure.submit_run(agent => %(agent)s, input => %(input)s,
        session => %(session)s, target => %(target)s, on_busy => %(on_busy)s,
        limits => %(limits)s, priority => %(priority)s, queue_key => %(queue_key)s,
        deadline => %(deadline)s, metadata => %(metadata)s, callback => %(callback)s,
        idempotency_key => %(idempotency_key)s) as run
"""
DEFAULTS: dict[str, Any] = {
    "agent": "desk",
    "input": '"hello"',
    "session": None,
    "target": None,
    "on_busy": "queue",
    "limits": "{}",
    "priority": 0,
    "queue_key": None,
    "deadline": None,
    "metadata": "{}",
    "callback": None,
    "idempotency_key": None,
}
DEEP = "[" * 65 + "]" * 65
NESTED = "[" * 100_000 + "]" * 100_000


@pytest_asyncio.fixture(autouse=True)
async def desk(stage: Stage, audited: None) -> None:
    definition = {"limits": Limits(turns=9, calls=5).to_json()}
    await agents.register(stage.connection, "desk", "v1", definition)


async def submit(connection: psycopg.AsyncConnection[Any], **given: Any) -> str:
    found = await row(connection, SUBMIT, **DEFAULTS | given)
    assert found is not None
    return str(found["run"])


async def refused(stage: Stage, **given: Any) -> psycopg.Error:
    given = {"idempotency_key": "refused"} | given
    with pytest.raises(psycopg.Error) as caught:
        await submit(stage.connection, **given)
    return caught.value


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


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("input", None),
        ("input", "null"),
        ("input", "7"),
        ("input", '"  "'),
        ("input", "[]"),
        ("input", "[7]"),
        ("input", '[{"text": "x"}]'),
        ("input", '[{"type": "text", "text": " "}]'),
        ("input", '[{"type": "tool_result", "content": "x"}]'),
        ("input", '[{"type": "mcp_tool_use"}]'),
        ("input", r'"a\u0000b"'),
        ("input", r'"a\ud800b"'),
        ("input", f'[{{"type": "x", "a": {DEEP}}}]'),
        ("input", f'[{{"type": "x", "n": 1{"0" * 5000}}}]'),
        ("input", '[{"type": "x", "n": 1e999}]'),
        ("session", "a b"),
        ("session", "x" * 65),
        ("target", ""),
        ("target", "x" * 201),
        ("on_busy", "supersede"),
        ("on_busy", None),
        ("limits", "[]"),
        ("limits", None),
        ("limits", r'{"a": "\u0000"}'),
        ("limits.turns", '{"turns": null}'),
        ("limits.turns", '{"turns": 0}'),
        ("limits.turns", '{"turns": 1.5}'),
        ("limits.tokens", '{"tokens": "9"}'),
        ("limits.cost_usd", '{"cost_usd": "-1"}'),
        ("limits.cost_usd", '{"cost_usd": "0.0000001"}'),
        ("limits.cost_usd", '{"cost_usd": true}'),
        ("limits.seconds", '{"seconds": 0}'),
        ("limits.seconds", '{"seconds": "5"}'),
        ("limits.steps", '{"steps": 5}'),
        ("priority", -1),
        ("priority", 1001),
        ("queue_key", "a b"),
        ("queue_key", ""),
        ("deadline", "2020-01-01T00:00:00Z"),
        ("metadata", "[]"),
        ("metadata", '{"a": 1}'),
        ("metadata", json.dumps({"x" * 65: "a"})),
        ("metadata", json.dumps({"a": "x" * 513})),
        ("metadata", json.dumps({str(n): "x" for n in range(17)})),
        ("callback", "ftp://example.org"),
        ("callback", "https://"),
        ("idempotency_key", "a b"),
        ("idempotency_key", ""),
    ],
)
async def test_what_cannot_be_kept_is_refused_with_the_name_of_the_field(
    stage: Stage, field: str, value: object
) -> None:
    before = await rows(stage.connection, "select id from perdure.runs")
    error = await refused(stage, **{field.partition(".")[0]: value})

    assert error.sqlstate == "PD422"
    assert error.diag.column_name == field
    assert error.diag.message_detail == "/problems/invalid-request"
    assert await rows(stage.connection, "select id from perdure.runs") == before


async def test_an_agent_that_is_not_there_is_refused(stage: Stage) -> None:
    for agent in ("nobody", None):
        error = await refused(stage, agent=agent)
        assert (error.sqlstate, error.diag.column_name) == ("PD422", "agent")
        assert error.diag.message_detail == "/problems/agent-not-found"


async def test_more_than_a_mebibyte_is_refused(stage: Stage) -> None:
    error = await refused(stage, input=json.dumps("x" * 1024 * 1024))
    assert (error.sqlstate, error.diag.message_detail) == ("PD413", "/problems/too-large")


async def test_levels_beyond_what_postgres_itself_reads_are_refused(stage: Stage) -> None:
    with pytest.raises(psycopg.errors.StatementTooComplex):
        await submit(stage.connection, input=NESTED)


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
