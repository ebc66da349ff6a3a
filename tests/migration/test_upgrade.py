"""Databases of earlier releases go on under this one, with all that was parked in them."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, LiteralString

import psycopg
import pytest
import pytest_asyncio

from app.services import waits as answers
from app.services.context import Caller, Services
from app.store import waits
from app.store.audit import audit
from tests.integration.store.conftest import serving
from tests.integration.store.stage import Stage
from tests.support.database import Cluster, migrate

FIXTURES = Path(__file__).parent / "fixtures"

CATALOG: dict[str, LiteralString] = {
    "columns": """
        select table_name, column_name, data_type, is_nullable, column_default, is_identity
        from information_schema.columns where table_schema = 'perdure'""",
    "constraints": """
        select conrelid::regclass::text, pg_get_constraintdef(oid) from pg_constraint
        where connamespace = 'perdure'::regnamespace""",
    "indexes": "select indexdef, '' from pg_indexes where schemaname = 'perdure'",
    "functions": """
        select proname, pg_get_functiondef(oid) from pg_proc
        where pronamespace = 'perdure'::regnamespace""",
}


# Whose rows are told of below; those of later ones are carried on in test_carried_on.
first_release = pytest.mark.parametrize("upgraded_url", ["0001"], indirect=True)

# For workers of the release before, while both are there.
KEPT = ("supersede_approval",)


def read_catalog(url: str) -> dict[str, list[tuple[Any, ...]]]:
    with psycopg.connect(url) as connection:
        found = {name: connection.execute(query).fetchall() for name, query in CATALOG.items()}
    return {name: sorted(rows, key=str) for name, rows in found.items()}


@pytest.fixture(scope="module", params=sorted(each.stem for each in FIXTURES.glob("*.sql")))
def upgraded_url(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """A database of an earlier revision, after `perdure migrate`."""
    url = cluster.create_empty()
    with psycopg.connect(url) as connection:
        connection.execute("set check_function_bodies = off")
        connection.execute((FIXTURES / f"{request.param}.sql").read_bytes())
    migrate(url)
    yield url
    cluster.drop(url)


@pytest_asyncio.fixture
async def stage(upgraded_url: str) -> AsyncIterator[Stage]:
    async with await psycopg.AsyncConnection.connect(upgraded_url, autocommit=True) as connection:
        yield Stage(connection)


@pytest_asyncio.fixture
async def services(upgraded_url: str) -> AsyncIterator[Services]:
    async with serving(upgraded_url, connections=2) as services:
        yield services


def test_an_upgraded_database_is_made_like_a_new_one(upgraded_url: str, database_url: str) -> None:
    upgraded, new = read_catalog(upgraded_url), read_catalog(database_url)
    upgraded["functions"] = [each for each in upgraded["functions"] if each[0] not in KEPT]

    for part in CATALOG:
        assert upgraded[part] == new[part]


def test_each_function_is_there_once(upgraded_url: str) -> None:
    names = [name for name, _ in read_catalog(upgraded_url)["functions"]]

    assert len(names) > 30
    assert sorted(names) == sorted(set(names))


@first_release
async def test_nothing_is_broken_by_the_upgrade(stage: Stage) -> None:
    assert await audit(stage.connection) == []
    for run in ("run_parked", "run_backing_off", "run_ended"):
        assert await stage.told(run)
    parked = [(await stage.run(run))["parked"] for run in ("run_parked", "run_backing_off")]
    assert parked == [True, True]
    assert not (await stage.run("run_ended"))["parked"]


@first_release
async def test_a_question_that_was_asked_before_is_answered_after(
    stage: Stage, services: Services
) -> None:
    wait = await stage.open_wait("call_parked_1_0")

    await answers.resolve(services, wait, {"decision": "allow"}, Caller("ann"), None)

    assert (await stage.run("run_parked"))["status"] == "queued"
    assert await stage.legs("run_parked") == [2]
    fence = await stage.take("run_parked", "w2")
    at = stage.place("run_parked", fence, "call_parked_1_0", worker="w2")
    assert await stage.start(at) == "ok"
    assert await stage.finish(at) == "ok"
    assert await stage.begin("run_parked", fence, 2) == "call"


@first_release
async def test_a_timer_that_was_set_before_goes_off_after(stage: Stage) -> None:
    (wait,) = await waits.due(stage.connection, 10)

    assert await waits.expire(stage.connection, wait) == {"run": "run_backing_off", "leg": 2}


def test_migrating_again_changes_nothing(upgraded_url: str) -> None:
    before = read_catalog(upgraded_url)

    migrate(upgraded_url)

    assert read_catalog(upgraded_url) == before
