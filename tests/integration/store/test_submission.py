"""Many requests at once: one key is one run, one session has one active run."""

import asyncio
from typing import Any

import pytest

from app.errors import AgentNotFound, IdempotencyKeyReused, TargetBusy
from app.services import runs as use
from app.services.context import Caller, Services
from app.services.runs import Submission, Submitted
from app.store import agents
from app.store.db import Row, rows
from tests.integration.store.stage import Stage

ANN = Caller("ann")
CROWD = 20


def submission(**values: Any) -> Submission:
    defaults: dict[str, Any] = {
        "agent": "desk",
        "input": "hello",
        "session": None,
        "target": None,
        "on_busy": "queue",
        "limits": {},
        "priority": 0,
        "queue_key": None,
        "deadline": None,
        "metadata": {},
        "callback": None,
        "trace_id": "0" * 32,
    }
    return Submission(**defaults | values)


async def submit_many(services: Services, key: str | None, **values: Any) -> list[Any]:
    return await asyncio.gather(
        *(use.submit(services, submission(**values), ANN, key, "f") for _ in range(CROWD)),
        return_exceptions=True,
    )


async def read_runs(stage: Stage) -> list[Row]:
    """All runs, each with whether DBOS has its leg."""
    return await rows(
        stage.connection,
        """select r.id, r.held, s.status as leg from perdure.runs r
           left join dbos.workflow_status s on s.workflow_uuid = r.id || ':1'""",
    )


@pytest.fixture
async def desk(alone: Stage) -> Stage:
    await agents.register(alone.connection, "desk", "v1", {"limits": {}})
    return alone


async def test_one_key_is_one_run_however_many_ask_at_once(desk: Stage, crowd: Services) -> None:
    answers = await submit_many(crowd, "key")

    assert all(isinstance(answer, Submitted) for answer in answers), answers
    assert len({answer.run for answer in answers}) == 1
    assert sorted(answer.replayed for answer in answers) == [False] + [True] * (CROWD - 1)
    assert [(each["held"], each["leg"]) for each in await read_runs(desk)] == [(False, "ENQUEUED")]


async def test_a_key_is_spent_only_by_a_request_that_was_accepted(
    desk: Stage, crowd: Services
) -> None:
    with pytest.raises(AgentNotFound):
        await use.submit(crowd, submission(agent="nobody"), ANN, "key", "f")

    accepted = await use.submit(crowd, submission(), ANN, "key", "other")

    assert not accepted.replayed
    with pytest.raises(IdempotencyKeyReused):
        await use.submit(crowd, submission(), ANN, "key", "f")


async def test_a_key_belongs_to_its_caller(desk: Stage, crowd: Services) -> None:
    first = await use.submit(crowd, submission(), ANN, "key", "f")
    second = await use.submit(crowd, submission(), Caller("bob"), "key", "f")

    assert first.run != second.run


@pytest.mark.parametrize("work", [{"session": "s"}, {"target": "order-1"}])
async def test_of_many_runs_on_one_thing_one_is_active(
    desk: Stage, crowd: Services, work: dict[str, str]
) -> None:
    await submit_many(crowd, None, **work)

    found = await read_runs(desk)
    assert len(found) == CROWD
    assert [each["leg"] for each in found if not each["held"]] == ["ENQUEUED"]
    assert {each["leg"] for each in found if each["held"]} == {None}


async def test_of_many_that_would_rather_be_refused_one_is_accepted(
    desk: Stage, crowd: Services
) -> None:
    answers = await submit_many(crowd, None, session="s", on_busy="reject")

    assert sum(isinstance(answer, Submitted) for answer in answers) == 1
    assert sum(isinstance(answer, TargetBusy) for answer in answers) == CROWD - 1
    assert len(await read_runs(desk)) == 1


async def test_many_that_take_what_is_there_get_the_same_run(desk: Stage, crowd: Services) -> None:
    answers = await submit_many(crowd, None, session="s", on_busy="return_existing")

    assert len({answer.run for answer in answers}) == 1
    assert len(await read_runs(desk)) == 1


async def test_the_last_of_many_that_supersede_each_other_is_left(
    desk: Stage, crowd: Services
) -> None:
    answers = await submit_many(crowd, None, session="s", on_busy="supersede")

    assert all(isinstance(answer, Submitted) for answer in answers), answers
    left = await rows(desk.connection, "select held from perdure.runs where finished_at is null")
    assert left == [{"held": False}]
