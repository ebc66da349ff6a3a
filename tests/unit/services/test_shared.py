import asyncio

import pytest

from app.services.shared import Shared


class Looks:
    """Each look is let go, or fails, when the test says so."""

    def __init__(self) -> None:
        self.asked: list[asyncio.Future[int]] = []

    async def look(self) -> int:
        self.asked.append(asyncio.get_running_loop().create_future())
        return await self.asked[-1]


@pytest.fixture
def looks() -> Looks:
    return Looks()


async def ask(shared: Shared[int], times: int = 1) -> list[asyncio.Task[int]]:
    tasks = [asyncio.create_task(shared.read()) for _ in range(times)]
    for _ in range(3):
        await asyncio.sleep(0)
    return tasks


async def test_all_who_ask_at_once_share_one_look_and_who_comes_soon_after_its_answer(
    looks: Looks,
) -> None:
    shared = Shared(looks.look, seconds=1000)
    tasks = await ask(shared, 20)
    (look,) = looks.asked
    look.set_result(7)

    assert await asyncio.gather(*tasks) == [7] * 20
    assert await shared.read() == 7
    assert len(looks.asked) == 1


async def test_who_leaves_takes_nothing_from_the_others(looks: Looks) -> None:
    shared = Shared(looks.look)
    first, second = await ask(shared, 2)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    looks.asked[0].set_result(7)

    assert await second == 7


async def test_a_failure_is_told_to_all_who_wait_and_to_nobody_after(looks: Looks) -> None:
    shared = Shared(looks.look, seconds=1000)
    tasks = await ask(shared, 2)
    looks.asked[0].set_exception(ConnectionError())
    for task in tasks:
        with pytest.raises(ConnectionError):
            await task
    (later,) = await ask(shared)
    looks.asked[1].set_result(8)

    assert await later == 8


async def test_what_was_found_is_not_good_for_ever(looks: Looks) -> None:
    shared = Shared(looks.look, seconds=0)
    for number in (1, 2):
        (task,) = await ask(shared)
        looks.asked[-1].set_result(number)
        assert await task == number
