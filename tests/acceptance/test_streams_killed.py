"""Streams over what befalls the processes and the database behind them."""

import time
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.support.client import Client
from tests.support.deployment import Deployment
from tests.support.polling import in_time
from tests.support.scripts import Step, by_attempt, say, use
from tests.support.streams import Frame, open_stream, stored
from tests.support.trouble import away
from tests.support.troubled import Services, Troubled
from tests.support.world import World

FIRST, SECOND = "This answer will never be heard to its end.", "This one will, from its beginning."
DELTA = {"run", "turn", "attempt", "offset", "text"}


def paying(mark: str) -> list[Step]:
    return [use("pay_idem", ref=f"{mark}-1"), use("pay_idem", ref=f"{mark}-2"), say("paid")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def services(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Services]:
    services = Services(tmp_path_factory.mktemp("streams"))
    yield services
    services.close()


@pytest_asyncio.fixture
async def troubled(services: Services) -> Troubled:
    """One service over a database of its own, for all tests; each finds it whole."""
    troubled = await services.get("embedded", "socket")
    await troubled.deployment.mend()
    return troubled


@pytest.fixture
def deployment(troubled: Troubled) -> Deployment:
    return troubled.deployment


@pytest.mark.case("B67")
async def test_no_restart_of_the_api_costs_an_event(
    deployment: Deployment, world: World, client: Client
) -> None:
    first, second = world.gate("pay:before"), world.gate("pay:before", nth=2)
    run = (await client.submit(*paying("restart")))["id"]
    async with open_stream(client.http, run) as stream:
        frames = await stream.until("call.started")
        await first.reached()
        deployment.kill9_api()
        frames += await stream.broken_off()
    first.open()
    await second.reached()
    await deployment.restart_api()
    async with open_stream(client.http, run, after=len(frames)) as stream:
        frames += await stream.until("call.started")
        began = time.monotonic()
        assert deployment.api is not None
        deployment.api.terminate()
        frames += await stream.rest()
        assert deployment.api.wait() == 0
        assert time.monotonic() - began < in_time(2)
    second.open()
    await deployment.restart_api()
    async with open_stream(client.http, run, after=len(frames)) as stream:
        frames += await stream.rest()

    assert stored(frames) == await client.events(run)
    assert frames[-1].event == "run.succeeded"


async def test_a_drained_worker_leaves_streams_as_they_are(
    deployment: Deployment, world: World, client: Client
) -> None:
    gate = world.gate("pay:before")
    run = (await client.submit(*paying("drained")))["id"]
    async with open_stream(client.http, run) as stream:
        frames = await stream.until("call.started")
        await gate.reached()
        await deployment.start_worker()
        leaver = deployment.workers[0]
        leaver.terminate()
        gate.open()
        frames += await stream.rest()
    deployment.workers.remove(leaver)

    assert stored(frames) == await client.events(run)
    assert "run.handed_off" in {frame.event for frame in frames}


async def test_streams_stay_open_while_the_database_is_away(
    troubled: Troubled, world: World, client: Client
) -> None:
    gate = world.gate("pay:before")
    run = (await client.submit(*paying("away")))["id"]
    async with open_stream(client.http, run) as stream:
        frames = await stream.until("call.started")
        await gate.reached()
        with away(troubled.place):
            gate.open()
            refused = await client.http.get(
                f"/v1/runs/{run}/events", headers={"Accept": "text/event-stream"}
            )
            assert refused.status_code == 503
        frames += await stream.rest()

    assert stored(frames) == await client.events(run)
    assert frames[-1].event == "run.succeeded"


def said(frames: list[Frame], attempt: int) -> str:
    """The text of an attempt, put together as a client does it."""
    text = ""
    for frame in frames:
        if frame.event == "model.delta" and frame.data["attempt"] == attempt:
            text = text[: frame.data["offset"]] + frame.data["text"]
    return text


async def test_what_a_killed_attempt_said_is_told_apart_and_superseded(
    deployment: Deployment, client: Client
) -> None:
    answer = by_attempt({"text": FIRST, "stall": "mid_text"}, {"text": SECOND, "stall": "mid_text"})
    last = by_attempt(*answer["times"], say(SECOND))
    run = (await client.submit(last))["id"]
    async with open_stream(client.http, run, deltas="1") as stream:
        frames = await stream.until("model.delta")
        await deployment.crash()
        frames += await stream.until("run.taken_over")
        frames += await stream.until("model.delta")
        await deployment.crash()
        frames += await stream.rest()

    events = [frame for frame in frames if frame.event != "model.delta"]
    assert stored(events) == await client.events(run)
    deltas = [frame for frame in frames if frame.event == "model.delta"]
    assert all(delta.id is None and delta.data.keys() == DELTA for delta in deltas)
    assert FIRST.startswith(said(frames, 1))
    assert SECOND.startswith(said(frames, 2))
    assert [d.data["attempt"] for d in deltas] == sorted(d.data["attempt"] for d in deltas)
    completed = next(n for n, frame in enumerate(frames) if frame.event == "model.completed")
    assert not [frame for frame in frames[completed:] if frame.event == "model.delta"]
    (turn,) = await client.turns(run)
    assert (turn["content"], turn["attempts"]) == ([{"type": "text", "text": SECOND}], 3)
