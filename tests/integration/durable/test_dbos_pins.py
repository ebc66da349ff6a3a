"""What Perdure relies on in DBOS unpromised. A version that changes any of it fails here."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator

import psycopg
import pytest
import pytest_asyncio
from dbos._serialization import DefaultSerializer

from app.durable import names, runtime
from app.durable.enqueue import Legs
from app.store.db import Connection
from tests.integration.durable import pins
from tests.integration.durable.journal import ends, has_left, outcome, start, status, steps
from tests.integration.durable.pins import script
from tests.support.database import Cluster


@pytest.fixture(scope="module")
def url(cluster: Cluster) -> Iterator[str]:
    url = cluster.clone()
    yield url
    cluster.drop(url)


@pytest.fixture(scope="module")
def worker(url: str) -> Iterator[str]:
    """DBOS as a worker runs it, in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DefaultSerializer, "deserialize", DefaultSerializer.deserialize)
        runtime.prepare()
        runtime.launch(runtime.configure(url, "pin-worker", lambda: False), 10)
        yield "pin-worker"
        runtime.leave(0)


@pytest_asyncio.fixture
async def journal(url: str) -> AsyncIterator[Connection]:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def legs(url: str) -> Iterator[Legs]:
    legs = Legs(url)
    yield legs
    legs.close()


@pytest.mark.usefixtures("worker")
async def test_a_fenced_step_is_journaled_by_nobody_and_the_process_lives_on(
    journal: Connection,
) -> None:
    script("f1").fences = 1
    await start(pins.fenced, "f1")
    await has_left("f1", 1)

    await start(pins.fenced, "f2")
    await ends(journal, "f2", "SUCCESS")

    assert await status(journal, "f1") == "PENDING"
    assert [each["function_name"] for each in await steps(journal, "f1")] == ["pin.answer"]


@pytest.mark.usefixtures("worker")
async def test_resuming_a_pending_workflow_runs_only_what_is_not_journaled(
    journal: Connection, legs: Legs
) -> None:
    script("f3").fences = 1
    await start(pins.fenced, "f3")
    await has_left("f3", 1)

    await asyncio.to_thread(legs._client.resume_workflow, "f3", queue_name=names.QUEUE)
    await ends(journal, "f3", "SUCCESS")

    assert script("f3").calls == {"answer 0": 1, "fence": 2}


@pytest.mark.usefixtures("worker")
async def test_reserved_steps_keep_their_places_whichever_ends_first(
    journal: Connection, legs: Legs
) -> None:
    script("g1").fences = 1
    await start(pins.gathered, "g1")
    await has_left("g1", 1)

    found = await steps(journal, "g1")
    assert [each["function_name"] for each in found] == ["pin.call"] * 3
    assert [json.loads(each["output"])["index"] for each in found] == [0, 1, 2]

    await asyncio.to_thread(legs._client.resume_workflow, "g1", queue_name=names.QUEUE)
    await ends(journal, "g1", "SUCCESS")
    assert script("g1").calls == {"answer 0": 1, "answer 1": 1, "answer 2": 1, "fence": 2}
    assert json.loads((await outcome(journal, "g1"))["output"]) == [0, 1, 2]


@pytest.mark.usefixtures("worker")
async def test_outputs_are_ascii_json_under_the_frozen_name(journal: Connection) -> None:
    await start(pins.fenced, "f4")
    await ends(journal, "f4", "SUCCESS")

    assert (await steps(journal, "f4"))[0] == {
        "function_name": "pin.answer",
        "output": '{"index":0,"text":"\\u00e9","body":1}',
        "serialization": "perdure_json",
    }


@pytest.mark.usefixtures("worker")
async def test_a_zombies_step_is_refused_and_its_successors_stands(
    journal: Connection, legs: Legs
) -> None:
    doing = script("z1")
    await start(pins.gated, "z1")
    await asyncio.to_thread(doing.entered.acquire)
    await asyncio.to_thread(legs._client.resume_workflow, "z1", queue_name=names.QUEUE)
    await asyncio.to_thread(doing.entered.acquire)  # both bodies are under way

    doing.gates[0].set()
    await has_left("z1", 1)
    assert await steps(journal, "z1") == []
    assert await status(journal, "z1") == "PENDING"

    doing.gates[1].set()
    await ends(journal, "z1", "SUCCESS")
    assert [json.loads(each["output"]) for each in await steps(journal, "z1")] == [{"body": 2}]


@pytest.mark.usefixtures("worker")
async def test_a_dropped_leg_is_over_and_never_claimed_again(
    journal: Connection, legs: Legs
) -> None:
    script("d1").fences = 1
    await start(pins.fenced, "d1")
    await has_left("d1", 1)

    await asyncio.to_thread(legs.drop, "d1")

    assert await status(journal, "d1") == "CANCELLED"
    assert script("d1").calls["fence"] == 1


@pytest.mark.usefixtures("worker")
async def test_a_leg_that_raises_is_over_as_an_error(journal: Connection) -> None:
    await start(pins.broken, "b1")

    await ends(journal, "b1", "ERROR")

    found = json.loads((await outcome(journal, "b1"))["error"])
    assert found == {"error": "ValueError", "detail": "b1 does not fit"}


@pytest.mark.usefixtures("worker")
@pytest.mark.parametrize("spoil", ["pickle", "text"])
async def test_a_leg_whose_row_cannot_be_read_is_over_as_an_error(
    journal: Connection, legs: Legs, spoil: str
) -> None:
    """So that it is carried on from our tables, and no pickle is ever read."""
    name = f"p-{spoil}"
    script(name).fences = 1
    await start(pins.fenced, name)
    await has_left(name, 1)
    if spoil == "pickle":
        query = (
            "update dbos.workflow_status set serialization = 'py_pickle' where workflow_uuid = %s"
        )
    else:
        query = "update dbos.workflow_input set inputs = '{' where workflow_uuid = %s"
    assert (await journal.execute(query, [name])).rowcount == 1

    await asyncio.to_thread(legs._client.resume_workflow, name, queue_name=names.QUEUE)

    await ends(journal, name, "ERROR")
    assert script(name).calls["fence"] == 1


@pytest.mark.usefixtures("worker")
@pytest.mark.parametrize(("queue", "key"), [(names.RUNS, "acme"), (names.QUEUE, None)])
async def test_a_leg_given_back_to_its_queue_is_claimed_there(
    journal: Connection, legs: Legs, queue: str, key: str | None
) -> None:
    name = f"q-{queue}:1"
    script(name).fences = 1
    await start(pins.fenced, name)
    await has_left(name, 1)
    await journal.execute(
        """update dbos.workflow_status set queue_name = %s, queue_partition_key = %s
           where workflow_uuid = %s""",
        [queue, key, name],
    )

    await asyncio.to_thread(legs.resume, name, queue)

    await ends(journal, name, "SUCCESS")
    assert script(name).calls == {"answer 0": 1, "fence": 2}
