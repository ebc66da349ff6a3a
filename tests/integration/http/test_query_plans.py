from typing import LiteralString

import pytest

from app.store import (
    runs,
    views_console,
    views_events,
    views_inbox,
    views_notices,
    views_rules,
    views_runs,
    views_waits,
    webhooks,
)
from app.store.db import Database, rows

ONE_RUN = " ".join((views_runs.VIEW, "where run.id = %(run)s"))
PAGE = "order by {0}.created_at desc, {0}.id desc limit 50"


@pytest.mark.parametrize(
    "statement",
    [
        pytest.param(ONE_RUN, id="one run"),
        pytest.param(" ".join((views_runs.VIEW, PAGE.format("run"))), id="all runs"),
        pytest.param(" ".join((views_waits.VIEW, PAGE.format("wait"))), id="all waits"),
        pytest.param(
            " ".join((views_waits.VIEW, "where", views_waits.CONDITIONS["run"])),
            id="waits of a run",
        ),
        pytest.param(" ".join((views_rules.VIEW, PAGE.format("rule"))), id="all rules"),
        pytest.param(" ".join((webhooks.VIEW, PAGE.format("delivery"))), id="all deliveries"),
        pytest.param(
            " ".join((webhooks.VIEW, "where delivery.state = 'dead'", PAGE.format("delivery"))),
            id="deliveries in a state",
        ),
        pytest.param(views_console.COUNTS, id="the numbers at the top"),
        pytest.param(views_console.COST_TODAY, id="cost today"),
        pytest.param(views_console.WAITING_SINCE, id="waiting since"),
        pytest.param(views_inbox.FIRST, id="the inbox"),
        pytest.param(views_inbox.NEXT, id="more of the inbox"),
        pytest.param(views_inbox.OF_RUNS, id="the inbox of some runs"),
        pytest.param(views_inbox.LAST, id="the last waits of a run"),
        pytest.param(
            " ".join((views_inbox.UNKNOWN, "where", views_inbox.UNASKED)), id="unknown outcomes"
        ),
        pytest.param(views_notices.SETTLED, id="settled runs"),
        pytest.param(views_events.NEXT, id="further events"),
        pytest.param(runs.LAST_QUEUED, id="queued runs of a key"),
    ],
)
async def test_no_table_is_read_whole(database: Database, statement: LiteralString) -> None:
    async with database.connection() as connection:
        await connection.execute("set enable_seqscan = off")
        values = {"run": "run_1", "runs": ["run_1"], "queue_key": "acme", "limit": 10_000}
        values |= {"afters": [7], "bytes": 1000, "most": 9, "at": "2030-01-01", "id": "wait_1"}
        plan = await rows(connection, " ".join(("explain", statement)), **values)

    text = "\n".join(line["QUERY PLAN"] for line in plan)
    assert "Index" in text
    assert "Seq Scan" not in text, text
    assert "created_at DESC" not in text, text
