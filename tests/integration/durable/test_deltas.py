import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest
import pytest_asyncio

from app.domain.events import LONGEST_DRAFT
from app.durable import deltas
from app.durable.deltas import LARGEST_BYTES, Deltas, Saying
from app.store import watching
from app.store.db import Connection, Database
from tests.support.polling import eventually

Json = dict[str, Any]


@pytest_asyncio.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    async with Database(database_url, size=2, patience=5) as database:
        yield database


@pytest_asyncio.fixture
async def watcher(database_url: str) -> AsyncIterator[Connection]:
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        yield connection


@pytest_asyncio.fixture
async def heard(database_url: str) -> AsyncIterator[list[Json]]:
    """All that is told, to whomever."""
    found: list[Json] = []

    async def listen(connection: Connection) -> None:
        async for notice in connection.notifies():
            found.append(json.loads(notice.payload))

    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        await connection.execute("listen perdure_deltas")
        listening = asyncio.create_task(listen(connection))
        yield found
        listening.cancel()
        await asyncio.wait({listening})


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[frozenset[int]]:
    """What each look at the watchers found."""
    found: list[frozenset[int]] = []
    look = watching.watched

    async def noted(connection: Connection) -> frozenset[int]:
        found.append(await look(connection))
        return found[-1]

    monkeypatch.setattr(watching, "watched", noted)
    monkeypatch.setattr(deltas, "LOOK", 0.0)
    monkeypatch.setattr(deltas, "PAUSE", 0.01)
    return found


async def test_nobody_is_told_what_nobody_watches(
    database: Database, watcher: Connection, heard: list[Json], looks: list[frozenset[int]]
) -> None:
    with Deltas(database).of("run_1", 3, 2) as hear:
        hear("Once ")
        await watching.watch(watcher, [watching.key_of("run_2")], [])

        async def looked() -> bool:
            return len(looks) > 5

        await eventually(looked, "it was looked who watches")
        assert heard == []
        await watching.watch(watcher, [watching.key_of("run_1")], [])

        async def told() -> bool:
            return bool(heard)

        await eventually(told, "who comes late is told all")
        hear("upon")

        async def told_more() -> bool:
            return len(heard) == 2

        await eventually(told_more, "and then what comes")
    place = {"run": "run_1", "turn": 3, "attempt": 2}
    assert heard == [place | {"offset": 0, "text": "Once "}, place | {"offset": 5, "text": "upon"}]


async def test_nothing_is_done_where_no_model_is_called(
    database: Database, looks: list[frozenset[int]]
) -> None:
    told = Deltas(database)
    with told.of("run_1", 1, 1):
        task = told._task
    assert task is not None
    await asyncio.wait_for(task, 10)
    assert len(looks) <= 1


async def test_a_database_that_is_away_costs_the_call_nothing(database_url: str) -> None:
    nowhere = "postgresql://postgres@127.0.0.1:9/none"
    async with Database(nowhere, size=1, patience=0.2) as away:
        told = Deltas(away)
        with told.of("run_1", 1, 1) as hear:
            hear("said")
            await asyncio.sleep(0)
        assert told._task is not None
        await asyncio.wait_for(told._task, 10)


@pytest.mark.parametrize("text", ["plain " * 5000, "\U0001f600" * 5000, "\x00\ud800" * 3000, '"\\'])
def test_a_payload_fits_and_all_are_the_text(text: str) -> None:
    saying = Saying("run_1", 1, 1)
    saying.hear(text)
    saying.gather()
    found = ""
    while payload := saying.next():
        assert len(payload.encode()) <= LARGEST_BYTES
        piece = json.loads(payload)
        assert piece["offset"] == len(found)
        found += piece["text"]
    assert found == text


def test_of_a_long_answer_the_end_is_kept() -> None:
    saying = Saying("run_1", 1, 1)
    saying.hear("a" * LONGEST_DRAFT)
    saying.hear("b" * 10)
    saying.gather()

    assert json.loads(saying.next() or "")["offset"] == 10
