"""What perdure.submit_run refuses at once, and that nothing is stored then."""

import json
import sys

import psycopg
import pytest
import pytest_asyncio

from app.store.db import rows
from tests.integration.store.shop import refused, register_desk, submit
from tests.integration.store.stage import Stage

DEEP = "[" * 65 + "]" * 65
NESTED = "[" * 100_000 + "]" * 100_000
BLANK = "".join(filter(str.isspace, map(chr, range(sys.maxunicode + 1))))


@pytest_asyncio.fixture(autouse=True)
async def desk(stage: Stage, audited: None) -> None:
    await register_desk(stage)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("input", None),
        ("input", "null"),
        ("input", "7"),
        ("input", '"  "'),
        ("input", json.dumps(BLANK)),
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
        ("input", '[{"type": "x", "n": 1e999999}]'),
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
        ("deadline", "infinity"),
        ("deadline", "9999-12-31 23:59:59-14"),
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
