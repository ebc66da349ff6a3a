"""Several clients at once, workers that freeze or leave, sessions that are cut: one truth each."""

import asyncio
from collections.abc import AsyncIterator, Awaitable

import httpx
import psycopg
import pytest_asyncio

from tests.support.client import Client, Json
from tests.support.deployment import Deployment
from tests.support.scripts import say, script, together, use
from tests.support.world import World

RACES = 20
CUT = """
    select pg_terminate_backend(pid) from pg_locks
    where locktype = 'advisory' and classid = 1346720836 and objsubid = 2
      and database = (select oid from pg_database where datname = current_database())
"""
# What the janitor does not judge by lost leases after a start, and a little.
GRACE_SECONDS = 11


@pytest_asyncio.fixture
async def other(deployment: Deployment) -> AsyncIterator[Client]:
    """The same service through a second API process."""
    async with Client(await deployment.start_another_api()) as other:
        yield other


async def test_contrary_decisions_at_once_are_one_decision(
    world: World, client: Client, other: Client
) -> None:
    async def race(nth: int) -> None:
        run = await client.submit(use("refund", ref=f"race-{nth}"), say("done"))
        wait = await client.open_wait(run["id"], within=60)
        allowed, denied = await _in_any_order(
            nth,
            client.resolve(wait["id"], {"decision": "allow"}),
            other.resolve(wait["id"], {"decision": "deny"}),
        )
        assert sorted([allowed.status_code, denied.status_code]) == [200, 409]
        await client.succeeded(run["id"], within=60)
        booked = len(world.payments.rows_for(f"race-{nth}"))
        assert booked == (allowed.status_code == 200)

    await asyncio.gather(*map(race, range(RACES)))


async def test_what_a_cancel_says_holds_against_an_approval_at_the_same_time(
    world: World, client: Client, other: Client
) -> None:
    async def race(nth: int) -> None:
        ref = f"race-{nth}"
        run = await client.submit(use("refund_once", ref=ref), say("done"))
        wait = await client.open_wait(run["id"], within=60)
        allowed, cancelled = await _in_any_order(
            nth, client.resolve(wait["id"], {"decision": "allow"}), other.cancel(run["id"])
        )
        ended = await client.ended(run["id"], within=60)
        assert (cancelled.status_code, ended["status"]) in [(202, "cancelled"), (409, "succeeded")]
        booked = len(world.payments.rows_for(ref))
        call = await client.call(run["id"])
        assert booked == 0 or call["state"] in ("succeeded", "outcome_unknown")
        assert booked == 0 or allowed.status_code == 200
        assert booked == 1 or call["state"] != "succeeded"

    await asyncio.gather(*map(race, range(RACES)))


async def test_a_message_that_was_accepted_is_heard_or_said_to_be_unheard(
    world: World, client: Client, other: Client
) -> None:
    async def race(nth: int) -> None:
        said = f"thing {nth}."
        run = await client.submit(say("done"), preface=f"<run {nth}> ")
        await asyncio.sleep(0.01 * nth)
        accepted = await other.send(run["id"], said)
        await client.ended(run["id"], within=60)
        states = [message["state"] for message in await client.messages(run["id"])]
        if accepted.status_code == 409:
            assert states == []
        elif states == ["delivered"]:
            assert world.model.about(f"<run {nth}> ")[-1].transcript.count(said) == 1
        else:
            assert states == ["undelivered"]
            assert "message.undelivered" in await client.event_types(run["id"])

    for first in range(0, RACES, 10):
        await asyncio.gather(*map(race, range(first, first + 10)))


async def test_superseding_from_two_sessions_at_once_refuses_nobody(
    client: Client, other: Client
) -> None:
    """They meet at one target, and each session has runs of its own besides."""
    works: list[Json] = [
        {"session": "one"},
        {"session": "one", "target": "order"},
        {"session": "two", "target": "order"},
    ]
    for work in works:
        run = await client.submit(say("done"), **work)
        await client.ended(run["id"])
    body = {"agent": "desk", "input": script(say("done")), "on_busy": "supersede"}
    answers = await asyncio.gather(
        *((client, other)[nth % 2].post_run(body | works[nth % 3]) for nth in range(24))
    )
    assert [answer.json() for answer in answers if answer.status_code != 202] == []
    for answer in answers:
        await client.ended(answer.json()["id"])


async def test_leases_that_are_all_cut_at_once_cost_no_worker_and_no_outcome(
    world: World, client: Client, deployment: Deployment
) -> None:
    await deployment.start_worker()
    await asyncio.sleep(GRACE_SECONDS)
    gate = world.gate("pay:before", span=6)
    runs = [await client.submit(use("pay_once", ref=f"cut-{n}"), say("done")) for n in range(6)]
    await gate.reached(holding=6)
    await asyncio.sleep(0.3)
    with psycopg.connect(deployment.database_url, autocommit=True) as connection:
        connection.execute(CUT)
    await asyncio.sleep(6)
    gate.open()
    assert [worker.exit_code for worker in deployment.workers] == [None, None]
    for nth, run in enumerate(runs):
        await client.succeeded(run["id"])
        assert (await client.call(run["id"]))["state"] == "succeeded"
        assert len(world.payments.rows_for(f"cut-{nth}")) == 1


async def test_a_worker_that_is_told_to_stop_under_load_costs_no_run_and_no_attempt(
    world: World, client: Client, deployment: Deployment
) -> None:
    gate = world.gate("pay:before", span=10)
    runs = [
        await client.submit(
            use("pay_once", ref=f"drain-{n}"),
            together(use("pay_idem", ref=f"drain-{n}-b"), use("doc_read", name="d")),
            say("done"),
        )
        for n in range(20)
    ]
    await gate.reached(holding=10)
    leaving = asyncio.create_task(deployment.terminate(deployment.worker))
    await asyncio.sleep(0)  # so that it is no longer counted among the workers
    await deployment.start_worker()
    gate.open()
    assert await leaving == 0
    for run in runs:
        await client.succeeded(run["id"], within=60)
        assert {(c["state"], c["attempts"]) for c in await client.calls(run["id"])} == {
            ("succeeded", 1)
        }
        assert "run.taken_over" not in await client.event_types(run["id"])
    assert len(world.payments.calls) == 40


async def test_a_frozen_worker_is_overtaken_and_repeats_nothing(
    world: World, client: Client, deployment: Deployment
) -> None:
    gates = [world.gate(point) for point in ("pay:before", "llm:arrive")]
    once = await client.submit(use("pay_once", ref="frozen"), say("done"), preface="<once> ")
    await gates[1].reached()
    gates[1].open()
    await gates[0].reached()
    frozen = deployment.worker
    await deployment.start_worker()
    frozen.freeze()
    gates[0].open()
    await client.succeeded(once["id"], within=30)
    frozen.thaw()
    assert await asyncio.to_thread(frozen.wait) == 1
    # Its own late answer settles the call, if it comes before the worker learns its fate.
    assert (await client.call(once["id"]))["state"] in ("succeeded", "outcome_unknown")
    assert len(world.payments.calls) == 1
    types = await client.event_types(once["id"])
    assert types.count("run.succeeded") == 1
    assert "call.outcome_unknown" in types


async def _in_any_order(
    nth: int, first: Awaitable[httpx.Response], second: Awaitable[httpx.Response]
) -> tuple[httpx.Response, httpx.Response]:
    """Both at once, the second begun a little earlier or later than the first."""

    async def after(seconds: float, act: Awaitable[httpx.Response]) -> httpx.Response:
        await asyncio.sleep(seconds)
        return await act

    lag = (nth - RACES / 2) * 0.002
    done = await asyncio.gather(after(max(-lag, 0.0), first), after(max(lag, 0.0), second))
    return done[0], done[1]
