"""What one worker is told by a model provider holds for all of them."""

import pytest

from app.store.db import rows
from tests.integration.store.askers import Provider
from tests.integration.store.stage import Stage

pytestmark = pytest.mark.usefixtures("audited_by_hand")


@pytest.fixture
def provider(stage: Stage) -> Provider:
    return Provider(stage)


async def test_a_provider_that_complains_of_nothing_is_not_written_down(
    stage: Stage, provider: Provider
) -> None:
    asker = await provider.asker()

    assert await asker.ask() == "call"
    await asker.is_answered()

    query = "select from perdure.providers where name = %(name)s"
    assert await rows(stage.connection, query, name=provider.name) == []


async def test_nobody_asks_before_the_time_the_provider_named(provider: Provider) -> None:
    first, other = await provider.askers(2)
    await first.ask()
    await first.is_refused(told=60)

    assert await other.ask() == "wait"

    await provider.set_spacing(0)
    await provider.pass_time(59)
    await provider.let_in()
    assert not await other.wakes()
    await provider.pass_time(2)
    await provider.let_in()
    assert await other.wakes()
    assert await other.ask() == "call"


async def test_who_was_let_in_heeds_what_the_provider_has_said_since(provider: Provider) -> None:
    first, other, third = await provider.askers(3)
    await first.ask()
    await third.ask()
    await first.is_refused(told=60)
    assert await other.ask() == "wait"
    await provider.pass_time(61)
    await provider.let_in()
    assert await other.wakes()

    await third.is_refused(told=60)

    assert await other.ask() == "wait"
    await provider.let_in()
    assert not await other.wakes()
    await provider.pass_time(61)
    await provider.let_in()
    assert await other.wakes()
    assert await other.ask() == "call"


async def test_a_run_kept_waiting_has_made_no_attempt(stage: Stage, provider: Provider) -> None:
    first, other = await provider.askers(2)
    await first.ask()
    await first.is_refused()

    assert await other.ask() == "wait"

    found = await stage.run(other.run)
    assert (found["model_failures"], found["model_calls"]) == (0, 0)
    assert (await stage.told(other.run))[-1] == "wait.opened"
    wait = await other.wait()
    assert (wait["kind"], wait["question"]) == ("timer", "when the provider may be asked")


async def test_asking_again_for_a_lost_answer_is_asking_once(
    stage: Stage, provider: Provider
) -> None:
    first, other = await provider.askers(2)
    await first.ask()
    await first.is_refused(told=60)
    await other.ask()
    await provider.pass_time(61)

    assert await other.ask() == "wait"

    assert (await stage.told(other.run)).count("wait.opened") == 1
    assert await provider.line() == [other.run]


async def test_those_refused_together_come_back_one_after_the_other(provider: Provider) -> None:
    crowd = await provider.askers(5)
    for asker in crowd:
        assert await asker.ask() == "call"
    for asker in crowd:
        await asker.is_refused(told=60)
    await provider.pass_time(61)
    await provider.set_spacing(10)

    assert [await asker.comes_back() for asker in crowd] == ["call"] + ["wait"] * 4

    for n in range(1, 5):
        await provider.let_in()
        assert await provider.line() == [asker.run for asker in crowd[n:]]
        assert not await crowd[n].wakes()
        await provider.pass_time(10)
        await provider.let_in()
        assert await crowd[n].wakes()
        assert await crowd[n].ask() == "call"


async def test_the_pace_slows_once_for_each_round_of_complaints(provider: Provider) -> None:
    crowd = await provider.askers(3)
    for asker in crowd:
        await asker.ask()
    for asker in crowd:
        await asker.is_refused(told=60)
    assert await provider.spacing() == pytest.approx(0.1)

    await provider.pass_time(61)
    assert await crowd[0].comes_back() == "call"
    await provider.pass_time(1)
    assert await crowd[1].comes_back() == "call"
    for asker in crowd[:2]:
        await asker.is_refused(told=2)

    assert await provider.spacing() == pytest.approx(0.2)


async def test_the_line_moves_at_the_pace_of_the_moment(provider: Provider) -> None:
    first, second, third = await provider.askers(3)
    await first.ask()
    await first.is_refused(told=0, retry=None)
    await provider.set_spacing(60)
    assert await second.ask() == "call"
    assert await third.ask() == "wait"
    await provider.let_in()
    assert not await third.wakes()

    await provider.set_spacing(0)

    await provider.let_in()
    assert await third.wakes()


async def test_nobody_overtakes_those_who_wait(provider: Provider) -> None:
    first, second, third, newcomer = await provider.askers(4)
    await first.ask()
    await first.is_refused(told=0, retry=None)
    await provider.set_spacing(10)
    assert [await asker.ask() for asker in (second, third)] == ["call", "wait"]
    await provider.pass_time(11)

    assert await newcomer.ask() == "wait"

    await provider.let_in()
    assert [await asker.wakes() for asker in (third, newcomer)] == [True, False]
    assert await third.ask() == "call"
    assert await provider.line() == [newcomer.run]


async def test_answers_bring_the_pace_back_to_none(stage: Stage, provider: Provider) -> None:
    first, other = await provider.askers(2)
    await first.ask()
    await first.is_refused(told=0, retry=None)
    await provider.pass_time(5)

    assert await other.ask() == "call"
    await other.is_answered()
    assert await provider.spacing() == pytest.approx(0.09)

    await provider.set_spacing(0.015)
    await provider.pass_time(5)
    last = await provider.asker()
    assert await last.ask() == "call"
    await last.is_answered()
    assert await provider.spacing() == 0
    before = (await provider.row(), await provider.askers(1))
    assert await before[1][0].ask() == "call"
    assert await provider.row() == before[0]


async def test_an_answer_from_before_the_complaint_hastens_nothing(provider: Provider) -> None:
    early, refused = await provider.askers(2)
    await early.ask()
    await refused.ask()
    await refused.is_refused(told=0, retry=None)

    await early.is_answered()

    assert await provider.spacing() == pytest.approx(0.1)


async def test_a_failure_that_is_no_complaint_holds_up_nobody(provider: Provider) -> None:
    first, other = await provider.askers(2)
    await first.ask()
    await provider.stage.fail(first.run, first.fence, retry=60)

    assert await other.ask() == "call"
