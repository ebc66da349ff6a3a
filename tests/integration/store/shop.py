"""perdure.submit_run as another service calls it."""

from typing import Any, LiteralString

import psycopg
import pytest

from app.domain.limits import Limits
from app.store import agents
from app.store.db import row
from tests.integration.store.stage import Stage

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


async def register_desk(stage: Stage) -> None:
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
