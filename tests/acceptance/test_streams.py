"""Live events: a stream and those that follow it have every event of the log once, in order."""

import asyncio
from contextlib import suppress

import httpx
import pytest

from tests.support.client import Client
from tests.support.sampling import FULL
from tests.support.scripts import Step, give, say, use
from tests.support.streams import Frame, open_stream, stored
from tests.support.world import World

pytestmark = pytest.mark.calm

RUNS = 500 if FULL else 20
AT_ONCE = 20
STEPS = [use("doc_read", name="a"), use("doc_read", name="b"), say("read")]


@pytest.mark.case("B65")
async def test_a_stream_dropped_after_every_frame_has_no_gap_and_no_twin(client: Client) -> None:
    run = (await client.submit(*STEPS))["id"]
    frames: list[Frame] = []
    while not frames or frames[-1].event != "run.succeeded":
        async with open_stream(client.http, run, after=len(frames)) as stream:
            frames.append(await stream.next())

    assert stored(frames) == await client.events(run)


@pytest.mark.case("B68")
async def test_the_stream_of_a_parked_run_replays_at_once_and_goes_on_after_the_approval(
    client: Client,
) -> None:
    run = (await client.submit(use("refund", ref="parked"), say("done")))["id"]
    wait = await client.open_wait(run)

    async with open_stream(client.http, run) as stream:
        frames = await stream.until("run.waiting")
        assert stored(frames) == await client.events(run)
        await client.allow(wait["id"])
        frames += await stream.rest()

    assert stored(frames) == await client.events(run)
    assert frames[-1].event == "run.succeeded"


async def result_at_the_end(client: Client, number: int, room: asyncio.Semaphore) -> None:
    async with room:
        run = (await client.submit(say(f"answer {number}")))["id"]
        async with open_stream(client.http, run) as stream:
            *_, last = await stream.rest()
        shown = await client.run(run)
    assert last.event == "run.succeeded"
    assert (shown["status"], shown["output"]["text"]) == ("succeeded", f"answer {number}")


@pytest.mark.case("B69")
@pytest.mark.timeout(300)
async def test_what_a_run_came_to_can_be_read_the_moment_its_end_is_told(client: Client) -> None:
    room = asyncio.Semaphore(AT_ONCE)
    async with asyncio.TaskGroup() as group:
        for number in range(RUNS):
            group.create_task(result_at_the_end(client, number, room))


async def test_two_clients_and_one_that_comes_late_see_the_same(
    world: World, client: Client
) -> None:
    gate = world.gate("doc:before")
    run = (await client.submit(*STEPS))["id"]
    async with open_stream(client.http, run) as first, open_stream(client.http, run) as second:
        await gate.reached()
        gate.open()
        seen = [await first.rest(), await second.rest()]
    async with open_stream(client.http, run) as third:
        seen.append(await third.rest())

    assert seen[0] == seen[1] == seen[2]
    assert stored(seen[0]) == await client.events(run)


async def test_a_child_has_a_stream_of_its_own(client: Client) -> None:
    run = (await client.submit(give(say("part")), say("whole")))["id"]
    child = (await client.child(run))["id"]

    for each in (child, run):
        async with open_stream(client.http, each) as stream:
            frames = await stream.rest()
        assert {frame.data["run"] for frame in frames} == {each}
        assert stored(frames) == await client.events(each)


def limited() -> list[Step]:
    return [use("count", name="resumed-a"), use("count", name="resumed-b"), say("done")]


async def test_a_stream_ends_with_the_run_and_goes_on_from_there_when_it_is_resumed(
    client: Client,
) -> None:
    run = (await client.submit(*limited(), limits={"turns": 1}))["id"]
    async with open_stream(client.http, run) as stream:
        before = await stream.rest()
    assert before[-1].event == "run.failed"
    async with open_stream(client.http, run, after=stream.last) as stream:
        assert await stream.rest() == []

    assert (await client.resume(run, turns=5)).status_code == 202
    async with open_stream(client.http, run, after=len(before)) as stream:
        after = await stream.rest()

    assert after[-1].event == "run.succeeded"
    assert stored(before + after) == await client.events(run)


async def test_a_client_that_stops_listening_or_waiting_decides_nothing(
    world: World, client: Client
) -> None:
    gate, reads = world.gate("doc:before"), world.documents.reads.count("a")
    run = (await client.submit(*STEPS))["id"]
    async with open_stream(client.http, run) as stream:
        await stream.next()
        await gate.reached()
    with suppress(httpx.ReadTimeout):
        headers = {"Prefer": "wait=60"}
        await client.http.get(f"/v1/runs/{run}", headers=headers, timeout=0.5)
        raise AssertionError("the request was not held")
    assert (await client.run(run))["status"] == "running"
    gate.open()

    assert (await client.succeeded(run))["output"]["text"] == "read"
    assert world.documents.reads.count("a") == reads + 1
