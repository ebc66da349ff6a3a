"""What a model is told of: the session's runs so far, and of a fork what came before its source."""

import pytest

from app.domain.ids import new_session_id
from app.store import turns
from tests.integration.store.stage import Stage
from tests.integration.store.test_forking import fork

pytestmark = pytest.mark.usefixtures("audited_by_hand")


async def told_of(stage: Stage, run: str) -> list[str]:
    return [each["id"] for each in await turns.history(stage.connection, run)]


async def said(stage: Stage, session: str) -> str:
    """A run of one turn that has ended."""
    run = await stage.submit(session=session)
    fence = await stage.take(run)
    await stage.turn(run, fence, 1)
    assert await stage.end(run, fence, "succeeded") == "ended"
    return run


async def test_a_run_is_told_of_the_runs_before_it_and_of_none_after(stage: Stage) -> None:
    session = new_session_id()
    first, second, third = [await said(stage, session) for _ in range(3)]

    assert await told_of(stage, second) == [first, second]
    assert await told_of(stage, third) == [first, second, third]


async def test_a_fork_is_told_of_what_came_before_its_source(stage: Stage) -> None:
    session = new_session_id()
    first, source, _ = [await said(stage, session) for _ in range(3)]

    run = await fork(stage, source, 1)

    assert await told_of(stage, run) == [first, run]


async def test_a_later_run_of_a_forks_session_is_told_of_both(stage: Stage) -> None:
    session = new_session_id()
    first, source = [await said(stage, session) for _ in range(2)]
    run = await fork(stage, source, 1)
    assert await stage.end(run, await stage.take(run), "succeeded") == "ended"

    later = await said(stage, (await stage.run(run))["session"])

    assert await told_of(stage, later) == [first, run, later]


async def test_a_fork_of_a_fork_is_told_of_all_that_led_to_it(stage: Stage) -> None:
    session = new_session_id()
    first, source = [await said(stage, session) for _ in range(2)]
    fork_one = await fork(stage, source, 1)
    await stage.end(fork_one, await stage.take(fork_one), "succeeded")
    between = await said(stage, (await stage.run(fork_one))["session"])

    of_fork, of_between = await fork(stage, fork_one, 1), await fork(stage, between, 1)

    assert await told_of(stage, of_fork) == [first, of_fork]
    assert await told_of(stage, of_between) == [first, fork_one, of_between]


async def test_another_fork_is_not_told_of(stage: Stage) -> None:
    source = await said(stage, new_session_id())
    one, two = await fork(stage, source, 1), await fork(stage, source, 1)

    assert await told_of(stage, one) == [one]
    assert await told_of(stage, two) == [two]


async def test_a_copied_message_is_heard_where_it_was(stage: Stage) -> None:
    run = await stage.submit()
    fence = await stage.take(run)
    await stage.turn(run, fence, 1)
    await stage.do(
        """insert into perdure.messages (id, run, text, content)
           values ('msg_' || %(run)s, %(run)s, 'look', '[{"type": "image"}]')""",
        run=run,
    )
    await stage.turn(run, fence, 2)

    copy = await fork(stage, run, 2)

    (told,) = await turns.history(stage.connection, copy)
    assert told["messages"] == [{"turn": 2, "text": "look", "content": [{"type": "image"}]}]
    assert [each["number"] for each in told["turns"]] == [1, 2]
