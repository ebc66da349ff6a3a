"""A worker that is frozen while the database restarts: nothing that it does later counts twice."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.support.client import Client, Json
from tests.support.deployment import Deployment
from tests.support.inspection import notes
from tests.support.polling import eventually, in_time
from tests.support.processes import Process
from tests.support.sampling import FULL
from tests.support.scripts import say, use
from tests.support.trouble import restarted
from tests.support.troubled import Services, Troubled
from tests.support.world import World

PAYING = ("pay_idem", "pay_once", "pay_once_r")
SERVERS = [("embedded", "socket"), ("embedded", "tcp")] if FULL else [("embedded", "socket")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def services(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Services]:
    services = Services(tmp_path_factory.mktemp("frozen"))
    yield services
    services.close()


@pytest_asyncio.fixture(params=SERVERS, ids="-".join)
async def troubled(services: Services, request: pytest.FixtureRequest) -> Troubled:
    found = await services.get(*request.param)
    await found.deployment.mend()
    return found


@pytest.fixture
def deployment(troubled: Troubled) -> Deployment:
    return troubled.deployment


async def caught(world: World, client: Client, mark: str) -> dict[str, str]:
    """Runs held after their payment, in a transactional tool and in the model call."""
    gate, noting, model = (
        world.gate("pay:after", span=len(PAYING)),
        world.gate("note_tx:after"),
        world.gate("llm:0"),
    )
    asked = await client.submit(say("done"), preface=f"<{mark} asked>")
    await model.reached()
    runs = {"asked": asked["id"]}
    for name in PAYING:
        run = await client.submit(use(name, ref=f"{mark} {name}"), say("paid"))
        runs[name] = run["id"]
    noted = await client.submit(use("note_tx", text=mark), say("noted"))
    runs["note_tx"] = noted["id"]
    await gate.reached(holding=len(PAYING))
    await noting.reached()
    return runs


async def assert_paid_once(world: World, client: Client, mark: str) -> None:
    for name in PAYING:
        assert len(world.payments.rows_for(f"{mark} {name}")) == 1, name
    for name in ("pay_once", "pay_once_r"):
        assert len(world.payments.calls_for(f"{mark} {name}")) == 1, name


async def test_one_that_wakes_up_in_time_carries_on(
    troubled: Troubled, world: World, client: Client, deployment: Deployment
) -> None:
    """Nobody else was there: the runs go on as if only the database had restarted."""
    mark = f"carries on {troubled.name}"
    runs = await caught(world, client, mark)
    worker = deployment.worker
    worker.freeze()
    with restarted(troubled.place):
        world.gates.open_all()
    worker.thaw()
    for run in runs.values():
        await client.succeeded(run, within=in_time(30))
    assert worker.exit_code is None
    await assert_paid_once(world, client, mark)
    assert len(world.payments.calls_for(f"{mark} pay_idem")) == 1
    assert notes(troubled.place.url, runs["note_tx"]) == [mark]
    for name, run in runs.items():
        assert "run.taken_over" not in await client.event_types(run)
        if name != "asked":
            assert (await client.call(run))["state"] == "succeeded"


async def test_one_that_wakes_up_too_late_exits_and_changes_nothing(
    troubled: Troubled, world: World, client: Client, deployment: Deployment
) -> None:
    mark = f"too late {troubled.name}"
    runs = await caught(world, client, mark)
    worker = deployment.worker
    frozen = (await client.run(runs["asked"]))["worker"]
    second = await deployment.start_worker()
    await eventually(lambda: is_ready(second), "the second worker is at work")
    worker.freeze()
    with restarted(troubled.place):
        world.gates.open_all()
    for run in runs.values():
        await client.succeeded(run, within=in_time(40))
    before = await everything(client, runs)
    assert await deployment.thaw(worker) == 1

    for name, events in (await everything(client, runs)).items():
        said = events[len(before[name]) :]
        # The outcome of an attempt that nobody else could know of may come late.
        late = ["call.reconciled"] if name == "pay_once" else []
        assert [each["type"] for each in said] in ([], late), name
    await assert_paid_once(world, client, mark)
    assert notes(troubled.place.url, runs["note_tx"]) == [mark]
    for run in runs.values():
        taken = [each for each in await client.events(run) if each["type"] == "run.taken_over"]
        assert [each["data"]["from_worker"] for each in taken] == [frozen]
        assert await client.strandings(run) == []
    assert (await client.call(runs["pay_once_r"]))["state"] == "succeeded"


async def is_ready(worker: Process) -> bool:
    return "is ready" in worker.text()


async def everything(client: Client, runs: dict[str, str]) -> dict[str, list[Json]]:
    return {name: await client.events(run) for name, run in runs.items()}
