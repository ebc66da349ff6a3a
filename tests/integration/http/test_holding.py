import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio
from starlette.types import ASGIApp, Message, Scope

from app.delivery import hub as hub_module
from app.delivery.hub import Hub
from app.http.application import build
from app.http.parts import Parts
from app.services.context import Services
from app.store.db import Database
from app.store.notify import Notifier
from tests.integration.http.conftest import BASE_URL
from tests.integration.http.rows import Rows
from tests.support.polling import eventually

RUN = {"agent": "refund-desk", "input": "hello"}
LONG = {"Prefer": "wait=30"}
SOON = 8  # seconds; a busy machine is slow, and the requests are held for much longer
LISTENERS = "select pid from pg_stat_activity where datname = current_database() and query ~* %s"


@pytest_asyncio.fixture
async def hub(database: Database) -> AsyncIterator[Hub]:
    hub = Hub(database)
    running = asyncio.create_task(hub.run())
    yield hub
    running.cancel()
    await asyncio.wait({running})


@pytest.fixture
def app(services: Services, hub: Hub) -> ASGIApp:
    return build(Parts(services, hub, lambda: True), key=None)


@pytest_asyncio.fixture
async def http(app: ASGIApp) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url=BASE_URL, timeout=40) as client:
        yield client


async def listener(rows: Rows) -> int:
    """The process id of the LISTEN connection, once there is one."""

    async def look() -> int | None:
        found = await rows.execute(LISTENERS, "^listen")
        return int(found[0][0]) if found else None

    return await eventually(look, "somebody listens")


async def held(http: httpx.AsyncClient, run: str, **headers: str) -> asyncio.Task[httpx.Response]:
    """A read under way; returns once it cannot but wait."""
    task = asyncio.create_task(http.get(f"/v1/runs/{run}", headers=LONG | headers))
    await asyncio.sleep(0.2)
    assert not task.done()
    return task


async def accepted(rows: Rows) -> str:
    """The only run, once it is committed."""

    async def look() -> str | None:
        found = await rows.execute("select id from perdure.runs")
        return str(found[0][0]) if found else None

    return await eventually(look, "the run is accepted")


async def test_the_answer_comes_with_the_end(http: httpx.AsyncClient, rows: Rows) -> None:
    run = await rows.run(status="running")
    reading = await held(http, run)

    await rows.end(run)

    response = await asyncio.wait_for(reading, SOON)
    assert (response.status_code, response.json()["status"]) == (200, "succeeded")
    assert response.headers["preference-applied"] == "wait=30"


@pytest.mark.parametrize("kind", ["approval", "outcome", "input", "external"])
async def test_the_answer_comes_when_the_run_has_parked_on_a_question(
    http: httpx.AsyncClient, rows: Rows, kind: str
) -> None:
    run = await rows.run(status="running")
    wait = await rows.wait(run, kind=kind, created_at="2999-01-01")  # never a second old
    reading = await held(http, run)

    await rows.park(run)

    response = await asyncio.wait_for(reading, SOON)
    assert (response.status_code, response.json()["status"]) == (202, "waiting")
    assert [each["id"] for each in response.json()["waiting_for"]] == [wait]


async def test_a_question_is_not_held_back_by_a_run_that_does_not_park(
    http: httpx.AsyncClient, rows: Rows
) -> None:
    run = await rows.run(status="running")
    reading = await held(http, run)

    wait = await rows.wait(run)

    response = await asyncio.wait_for(reading, SOON)
    assert (response.status_code, response.json()["status"]) == (202, "running")
    assert [each["id"] for each in response.json()["waiting_for"]] == [wait]


@pytest.mark.parametrize("kind", ["approval", "outcome", "input", "external"])
async def test_the_question_of_a_descendant_is_the_runs_own(
    http: httpx.AsyncClient, rows: Rows, kind: str
) -> None:
    run = await rows.run(status="waiting")
    child = await rows.run(parent=run, root=run, status="waiting")
    grandchild = await rows.run(parent=child, root=run, status="waiting")
    reading = await held(http, run)

    await rows.wait(grandchild, kind=kind)

    assert (await asyncio.wait_for(reading, SOON)).status_code == 202


@pytest.mark.parametrize("kind", ["timer", "child"])
async def test_what_resolves_itself_is_waited_through(
    http: httpx.AsyncClient, rows: Rows, kind: str
) -> None:
    run = await rows.run(status="waiting")
    child = await rows.run(parent=run, root=run, status="waiting")
    await rows.wait(run, kind=kind, created_at="2020-01-01")
    await rows.wait(child, kind=kind, created_at="2020-01-01")

    response = await http.get(f"/v1/runs/{run}", headers={"Prefer": "wait=1"})

    assert response.status_code == 202
    assert response.elapsed.total_seconds() > 0.9


async def test_what_is_settled_is_answered_at_once(http: httpx.AsyncClient, rows: Rows) -> None:
    ended = await rows.run(status="failed", finished_at="2020-01-01")
    asking = await rows.run(status="waiting")
    await rows.wait(asking)

    for run, status in ((ended, 200), (asking, 202)):
        response = await asyncio.wait_for(http.get(f"/v1/runs/{run}", headers=LONG), SOON)
        assert response.status_code == status


async def test_a_submission_can_wait_for_its_end(http: httpx.AsyncClient, rows: Rows) -> None:
    headers = LONG | {"Idempotency-Key": "k"}
    posting = asyncio.create_task(http.post("/v1/runs", json=RUN, headers=headers))

    run = await accepted(rows)
    assert not posting.done()
    await rows.end(run)

    response = await asyncio.wait_for(posting, SOON)
    assert (response.status_code, response.json()["id"]) == (200, run)
    again = await http.post("/v1/runs", json=RUN, headers=headers)
    assert (again.status_code, again.headers["idempotent-replayed"]) == (200, "true")


async def test_a_submission_is_answered_when_the_time_is_over(http: httpx.AsyncClient) -> None:
    response = await http.post("/v1/runs", json=RUN, headers={"Prefer": "wait=1"})

    assert (response.status_code, response.json()["status"]) == (202, "queued")
    assert response.headers["preference-applied"] == "wait=1"
    assert response.headers["location"] == f"/v1/runs/{response.json()['id']}"


async def test_a_submission_is_accepted_though_the_database_goes_away_while_it_is_held(
    http: httpx.AsyncClient, rows: Rows
) -> None:
    posting = asyncio.create_task(http.post("/v1/runs", json=RUN, headers={"Prefer": "wait=2"}))
    run = await accepted(rows)
    await asyncio.sleep(0.3)  # it has been looked at, and is held

    await rows.execute("alter table perdure.runs rename to elsewhere")

    response = await asyncio.wait_for(posting, SOON)
    assert (response.status_code, response.json()["id"]) == (202, run)
    assert response.headers["location"] == f"/v1/runs/{run}"
    assert (await http.get(f"/v1/runs/{run}")).status_code == 503


async def test_an_unknown_run_is_not_waited_for(http: httpx.AsyncClient) -> None:
    response = await asyncio.wait_for(http.get("/v1/runs/run_none", headers=LONG), SOON)

    assert response.status_code == 404


async def test_a_notice_wakes_before_the_next_poll(
    http: httpx.AsyncClient, rows: Rows, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub_module, "POLL_SECONDS", 3600)
    await listener(rows)
    run = await rows.run(status="running")
    reading = await held(http, run)
    await rows.end(run)
    await asyncio.sleep(0.1)
    assert not reading.done()

    Notifier(database).tell(run)

    assert (await asyncio.wait_for(reading, SOON)).status_code == 200


async def test_a_killed_listener_is_replaced(
    http: httpx.AsyncClient, rows: Rows, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub_module, "POLL_SECONDS", 3600)
    first = await listener(rows)
    run = await rows.run(status="running")
    reading = await held(http, run)
    await rows.execute("select pg_terminate_backend(%s)", first)

    async def replaced() -> bool:
        return await listener(rows) != first

    await eventually(replaced, "another listener")
    await rows.end(run)
    Notifier(database).tell(run)

    assert (await asyncio.wait_for(reading, SOON)).status_code == 200


async def test_a_hundred_waiters_share_one_connection(database: Database, rows: Rows) -> None:
    run = await rows.run(status="running")
    async with Database(database.url, size=1, patience=5) as narrow:
        hub = Hub(narrow)
        running = asyncio.create_task(hub.run())
        waiting = [asyncio.create_task(hub.wait(run, 30)) for _ in range(100)]
        await asyncio.sleep(0.2)
        assert not any(task.done() for task in waiting)

        await rows.end(run)

        await asyncio.wait_for(asyncio.gather(*waiting), SOON)
        running.cancel()
        await asyncio.wait({running})


async def test_a_released_hub_keeps_nobody(http: httpx.AsyncClient, rows: Rows, hub: Hub) -> None:
    run = await rows.run(status="running")
    reading = await held(http, run)

    hub.release()

    assert (await asyncio.wait_for(reading, SOON)).status_code == 202
    assert (
        await asyncio.wait_for(http.get(f"/v1/runs/{run}", headers=LONG), SOON)
    ).status_code == 202


async def test_a_client_that_goes_away_stops_waiting(app: ASGIApp, rows: Rows) -> None:
    run = await rows.run(status="running")
    gone = asyncio.Event()
    scope: Scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "GET",
        "path": f"/v1/runs/{run}",
        "raw_path": f"/v1/runs/{run}".encode(),
        "query_string": b"",
        "headers": [(b"host", b"localhost"), (b"prefer", b"wait=30")],
    }

    async def receive() -> Message:
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(_: Message) -> None:
        return None

    request = asyncio.ensure_future(app(scope, receive, send))
    await asyncio.sleep(0.2)
    assert not request.done()
    gone.set()
    await asyncio.wait_for(request, SOON)
