"""The Python client against a service whose processes die and whose answers get lost."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from app.client import AsyncPerdure, Perdure, Uncertain
from app.client.errors import AlreadyResolved, Invalid, RunEnded
from app.client.models import Event
from tests.support.client import Client
from tests.support.deployment import Deployment
from tests.support.lossy import lossy
from tests.support.polling import eventually, in_time
from tests.support.scripts import say, script, use
from tests.support.world import World

PAY = script(use("pay_idem", ref="p1"), say("Paid."))
REFUND = script(use("refund", ref="r1"), say("Refunded."))


@pytest_asyncio.fixture
async def perdure(deployment: Deployment) -> AsyncIterator[AsyncPerdure]:
    async with AsyncPerdure(deployment.url, patience=in_time(30)) as perdure:
        yield perdure


@pytest.mark.calm
async def test_a_submission_whose_answer_is_lost_makes_one_run(
    client: Client, deployment: Deployment, world: World
) -> None:
    async with (
        lossy(deployment.url, losses=2) as way,
        AsyncPerdure(way.url, patience=in_time(20)) as perdure,
    ):
        run = await perdure.runs.submit("desk", PAY, target="order-1")

        assert way.passed == ["POST /v1/runs 202", "POST /v1/runs 200", "POST /v1/runs 200"]
        assert (await run.wait(in_time(20))).text == "Paid."
        found = [found.id async for found in perdure.runs.list(target="order-1")]
    assert found == [run.id]
    assert [row.ref for row in world.payments.ledger] == ["p1"]


@pytest.mark.calm
async def test_a_message_whose_answer_is_lost_is_not_sent_again(
    client: Client, deployment: Deployment, world: World
) -> None:
    gate = world.gate("llm:arrive")
    async with lossy(deployment.url, losses=0) as way, AsyncPerdure(way.url) as perdure:
        run = await perdure.runs.submit("desk", script(say("Done."), say("Done.")))
        await gate.reached()
        way.losses = 1

        with pytest.raises(Uncertain):
            await run.send("Hello")

        assert [message.text async for message in run.messages()] == ["Hello"]
        gate.open()
        await run.wait(in_time(20))


@pytest.mark.calm
async def test_a_cancel_whose_answer_is_lost_is_told_as_done(
    client: Client, deployment: Deployment, perdure: AsyncPerdure
) -> None:
    run = await (await perdure.runs.submit("desk", REFUND)).wait(in_time(20), until="asked")
    async with lossy(deployment.url, losses=1) as way, AsyncPerdure(way.url) as other:
        assert (await other.runs.cancel(run.id, "enough")).status == "cancelled"
    with pytest.raises(RunEnded):
        await run.cancel()


@pytest.mark.calm
async def test_two_clients_that_allow_at_once_allow_one_refund(
    client: Client, deployment: Deployment, perdure: AsyncPerdure, world: World
) -> None:
    run = await (await perdure.runs.submit("desk", REFUND)).wait(in_time(20), until="asked")
    (shown,) = [wait async for wait in perdure.approvals.list(run=run.id)]

    def allow_elsewhere() -> str | None:
        with Perdure(deployment.url) as other:
            return other.approvals.allow(run.asks[0]).resolved_by

    mine, theirs = await asyncio.gather(
        perdure.approvals.allow(shown), asyncio.to_thread(allow_elsewhere)
    )
    with pytest.raises(AlreadyResolved) as late:
        await perdure.approvals.deny(shown)

    assert mine.resolved_by == theirs
    assert late.value.wait is not None
    assert late.value.wait["resolution"]["decision"] == "allow"
    assert (await run.wait(in_time(20))).status == "succeeded"
    assert [row.ref for row in world.payments.ledger if row.ref == "r1"] == ["r1"]


async def test_waiting_goes_on_when_the_api_is_killed_and_started_again(
    client: Client, deployment: Deployment, world: World
) -> None:
    gate = world.gate("pay:before")
    async with (
        lossy(deployment.url, losses=0) as way,
        AsyncPerdure(way.url, patience=in_time(30)) as perdure,
    ):
        run = await perdure.runs.submit("desk", PAY)
        await gate.reached()
        ordinary = Perdure(way.url, patience=in_time(30))
        waiting = asyncio.gather(
            run.wait(in_time(60)), asyncio.to_thread(ordinary.runs.wait, run.id, in_time(60))
        )

        async def both_are_held() -> bool:
            return way.held == [f"GET /v1/runs/{run.id}"] * 2

        await eventually(both_are_held, "two requests are held")
        # Asked after them, and answered: the service has them in hand.
        await client.run(run.id)
        assert await both_are_held()

        deployment.kill9_api()
        await deployment.restart_api()
        assert not waiting.done()
        gate.open()

        assert [found.text for found in await waiting] == ["Paid.", "Paid."]
        ordinary.close()


async def test_events_come_once_and_in_order_over_a_kill_of_the_api(
    client: Client, deployment: Deployment, perdure: AsyncPerdure, world: World
) -> None:
    gate = world.gate("pay:before")
    run = await perdure.runs.submit("desk", PAY)
    await gate.reached()
    lost: list[Exception | None] = []
    seen: list[Event] = []
    half = asyncio.Event()

    async def follow() -> None:
        async for event in run.events(on_lost=lost.append):
            seen.append(event)
            if event.type == "call.started":
                half.set()

    following = asyncio.create_task(follow())
    async with asyncio.timeout(in_time(20)):
        await half.wait()
    deployment.kill9_api()
    await deployment.restart_api()
    gate.open()
    async with asyncio.timeout(in_time(60)):
        await following

    assert lost
    stored = [event["seq"] for event in await client.events(run.id)]
    assert [event.seq for event in seen] == stored == list(range(1, len(stored) + 1))
    assert seen[-1].type == "run.succeeded"
    assert [event.seq async for event in run.events(after=2)] == stored[2:]
    assert [event async for event in run.events(after=stored[-1])] == []
    with pytest.raises(Invalid):
        await anext(aiter(run.events(after=stored[-1] + 1)))
