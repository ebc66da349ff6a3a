"""As many calls to a provider are under way as the operator allows, over all workers."""

import asyncio
from contextlib import AsyncExitStack

import psycopg
import pytest

from app.store import workers
from tests.integration.store.askers import Asker, Provider
from tests.integration.store.stage import Stage

pytestmark = pytest.mark.usefixtures("audited_by_hand")


@pytest.fixture
def provider(stage: Stage) -> Provider:
    return Provider(stage, cap=2)


async def crowded(provider: Provider, waiting: int = 1) -> tuple[list[Asker], list[Asker]]:
    """Those who ask, as many as may, and those who wait."""
    asking, others = await provider.askers(2), await provider.askers(waiting)
    assert [await asker.ask() for asker in asking] == ["call", "call"]
    assert [await asker.ask() for asker in others] == ["wait"] * waiting
    return asking, others


async def test_no_more_calls_than_allowed_are_under_way(provider: Provider) -> None:
    _, (waiting,) = await crowded(provider)

    assert (await waiting.wait())["question"] == "when the provider has room"
    await provider.let_in()
    assert not await waiting.wakes()


async def test_of_many_who_ask_at_once_as_many_as_allowed_may(
    provider: Provider, shared_url: str
) -> None:
    crowd = await provider.askers(8)
    async with AsyncExitStack() as stack:
        for asker in crowd:
            connecting = psycopg.AsyncConnection.connect(shared_url, autocommit=True)
            connection = await stack.enter_async_context(await connecting)
            asker.provider = provider.seen_by(Stage(connection))

        verdicts = await asyncio.gather(*(asker.ask() for asker in crowd))

    assert sorted(verdicts) == ["call"] * 2 + ["wait"] * 6


async def test_an_ended_call_makes_room_for_the_one_that_waited_longest(
    provider: Provider,
) -> None:
    asking, waiting = await crowded(provider, waiting=3)
    await asking[0].is_answered()

    await provider.let_in()
    await provider.let_in()

    assert [await asker.wakes() for asker in waiting] == [True, False, False]
    assert await waiting[0].ask() == "call"
    assert await provider.line() == [asker.run for asker in waiting[1:]]


async def test_a_failed_call_makes_room(provider: Provider) -> None:
    asking, (waiting,) = await crowded(provider)
    await provider.stage.fail(asking[0].run, asking[0].fence)

    await provider.let_in()

    assert await waiting.wakes()
    assert await waiting.ask() == "call"


async def test_nobody_overtakes_those_who_wait(provider: Provider) -> None:
    asking, (waiting,) = await crowded(provider)
    await asking[0].is_answered()

    newcomer = await provider.asker()

    assert await newcomer.ask() == "wait"
    await provider.let_in()
    assert [await waiting.wakes(), await newcomer.wakes()] == [True, False]


async def test_a_call_of_a_dead_worker_takes_no_room(stage: Stage, provider: Provider) -> None:
    lost = await provider.asker(worker=f"dying-{provider.name}")
    others = await provider.askers(2)
    assert [await asker.ask() for asker in (lost, *others)] == ["call", "call", "wait"]

    await workers.give_up(stage.connection, f"dying-{provider.name}", "proved")
    await provider.let_in()

    assert await others[1].wakes()
    assert await others[1].ask() == "call"


async def test_a_run_that_was_let_go_and_does_not_come_keeps_room_for_a_while_only(
    provider: Provider,
) -> None:
    asking, waiting = await crowded(provider, waiting=2)
    await asking[0].is_answered()
    await provider.let_in()
    await provider.let_in()
    assert not await waiting[1].wakes()

    await provider.pass_time(31)
    await provider.let_in()

    assert await waiting[1].wakes()
    assert await waiting[1].ask() == "call"
    assert await waiting[0].wakes()
    assert await waiting[0].ask() == "wait"
    assert (await provider.line())[0] == waiting[0].run


async def test_who_ends_while_waiting_leaves_the_line(stage: Stage, provider: Provider) -> None:
    asking, waiting = await crowded(provider, waiting=2)
    assert not await waiting[0].wakes()
    await stage.cancel(waiting[0].run, None)
    await asking[0].is_answered()

    await provider.let_in()

    assert await provider.line() == [waiting[1].run]
    assert await waiting[1].wakes()


async def test_a_limit_that_is_taken_away_lets_all_go(provider: Provider) -> None:
    _, waiting = await crowded(provider, waiting=3)
    provider.cap = None
    newcomer = await provider.asker()
    assert await newcomer.ask() == "call"

    await provider.let_in()

    assert [await asker.wakes() for asker in waiting] == [True] * 3
    assert [await asker.ask() for asker in waiting] == ["call"] * 3


async def test_a_call_begun_twice_is_one(provider: Provider) -> None:
    asking, _ = await crowded(provider)

    assert await asking[0].ask() == "call"


async def test_let_in_before_it_is_parked_a_run_goes_on(stage: Stage, provider: Provider) -> None:
    asking, (waiting,) = await crowded(provider)
    await asking[0].is_answered()
    await provider.let_in()
    (wait,) = [await waiting.wait()]
    await stage.do(
        "select perdure.expire_wait(w) from perdure.waits w where id = %(w)s", w=wait["id"]
    )

    assert await stage.park(waiting.run, waiting.fence) == "again"
    assert await waiting.ask() == "call"
