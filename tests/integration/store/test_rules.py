"""Standing rules: they answer a wait in the commit that opens it, if they still stand."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio

from app.domain.ids import new_session_id
from app.store import rules
from tests.integration.store.stage import ALLOW, Stage
from tests.support.polling import eventually

pytestmark = pytest.mark.usefixtures("audited_by_hand")


async def make(stage: Stage, run: str, wait: str, scope: str = "session", **more: Any) -> str:
    """A rule given with the approval of `wait`."""
    made = await rules.insert(
        stage.connection,
        wait,
        scope=scope,
        conditions=more.get("conditions", {"amount": {"max": 10}}),
        expires_at=more.get("expires_at"),
    )
    assert made is not None
    return made


async def allowed(stage: Stage, scope: str = "session", **values: Any) -> tuple[str, int, str]:
    """A run whose first call was allowed together with a rule: the run, its fence, the rule."""
    run, fence, call = await stage.calling("pay", "pay", "pay", **values)
    wait = await stage.ask(run, fence, call)
    await stage.resolve(wait, ALLOW)
    return run, fence, await make(stage, run, wait, scope)


def second(run: str) -> str:
    return f"call_{run[4:]}_1_1"


async def hold(stage: Stage, run: str, fence: int, rule: str, **more: Any) -> str:
    at = stage.place(run, fence, second(run), 0)
    return await stage.hold(at, "approval", rule=rule, **more)


async def wait_of(stage: Stage, run: str) -> dict[str, Any]:
    return await stage.one("select * from perdure.waits where call = %(c)s", c=second(run))


async def is_asked(stage: Stage, run: str) -> bool:
    states = ((await wait_of(stage, run))["state"], (await stage.call(second(run)))["state"])
    assert states in (("open", "waiting"), ("resolved", "ready"))
    return states[0] == "open"


async def test_a_rule_allows_a_call_in_the_commit_that_asks_for_it(stage: Stage) -> None:
    run, fence, rule = await allowed(stage)

    assert await hold(stage, run, fence, rule) == "held"

    assert not await is_asked(stage, run)
    wait = await wait_of(stage, run)
    assert (wait["resolved_by"], wait["resolved_via"]) == ("ann", "rule")
    assert wait["resolution"] == {"decision": "allow", "rule": rule}
    assert (await stage.told(run))[-2:] == ["wait.opened", "wait.resolved"]
    assert await stage.start(stage.place(run, fence, second(run))) == "ok"


async def test_a_run_is_not_parked_for_a_rule(stage: Stage) -> None:
    run, fence, rule = await allowed(stage)
    await hold(stage, run, fence, rule)

    assert await stage.park(run, fence) == "again"


async def test_a_rule_asked_twice_answers_once(stage: Stage) -> None:
    run, fence, rule = await allowed(stage)
    await hold(stage, run, fence, rule)
    told = await stage.told(run)

    assert await hold(stage, run, fence, rule) == "ok"
    assert await stage.told(run) == told


async def test_a_rule_allows_nothing_to_an_old_execution(stage: Stage) -> None:
    run, fence, rule = await allowed(stage)
    await stage.take(run, "w2")

    assert await hold(stage, run, fence, rule) == "fenced"
    assert (await stage.call(second(run)))["state"] == "proposed"


async def test_a_rule_allows_nothing_in_a_run_that_is_being_cancelled(stage: Stage) -> None:
    run, fence, rule = await allowed(stage)
    await stage.ask_cancel(run)

    assert await hold(stage, run, fence, rule) == "cancel"
    assert (await stage.call(second(run)))["state"] == "proposed"


async def revoke(stage: Stage, rule: str) -> None:
    await rules.revoke(stage.connection, rule, "bob")


async def expire(stage: Stage, rule: str) -> None:
    await stage.do(
        "update perdure.rules set expires_at = clock_timestamp() where id = %(rule)s", rule=rule
    )


Over = Callable[[Stage, str], Awaitable[None]]


@pytest.mark.parametrize("over", [revoke, expire])
async def test_a_rule_that_is_over_since_it_was_read_asks_a_person(
    stage: Stage, over: Over
) -> None:
    run, fence, rule = await allowed(stage)
    assert [each["id"] for each in await standing(stage, run)] == [rule]

    await over(stage, rule)

    assert await hold(stage, run, fence, rule) == "held"
    assert await is_asked(stage, run)
    assert await standing(stage, run) == []


async def test_a_rule_that_is_being_revoked_is_waited_for(stage: Stage, other: Stage) -> None:
    run, fence, rule = await allowed(stage)
    async with other.connection.transaction():
        await revoke(other, rule)
        holding = asyncio.ensure_future(hold(stage, run, fence, rule))
        await eventually(lambda: is_waiting(other), "the rule's row is waited for")

    assert await holding == "held"
    assert await is_asked(stage, run)


async def test_a_call_that_was_allowed_before_the_revocation_stays_allowed(
    stage: Stage, other: Stage
) -> None:
    run, fence, rule = await allowed(stage)
    async with stage.connection.transaction():
        await hold(stage, run, fence, rule)
        revoking = asyncio.ensure_future(revoke(other, rule))
        await eventually(lambda: is_waiting(stage), "the rule's row is waited for")
    await revoking

    assert not await is_asked(stage, run)
    assert await standing(stage, run) == []


async def is_waiting(stage: Stage) -> bool:
    await stage.do("select pg_stat_clear_snapshot()")
    found = await stage.one(
        """select exists (select from pg_stat_activity where datname = current_database()
                          and wait_event_type = 'Lock') as waiting"""
    )
    return bool(found["waiting"])


async def standing(stage: Stage, run: str, tool: str = "pay") -> list[dict[str, Any]]:
    found = await stage.run(run)
    return await rules.standing(
        stage.connection, run=run, session=found["session"], agent=found["agent"], tool=tool
    )


@pytest_asyncio.fixture
async def agent() -> str:
    """A name that no other test's rules are for."""
    return new_session_id()


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        ("run", (True, False, False)),
        ("session", (True, True, False)),
        ("agent", (True, True, True)),
    ],
)
async def test_a_rule_stands_in_its_run_its_session_or_everywhere(
    stage: Stage, agent: str, scope: str, expected: tuple[bool, ...]
) -> None:
    session = new_session_id()
    run, _, rule = await allowed(stage, scope, session=session, agent=agent)
    beside = await stage.submit(session=session, agent=agent, held=True)
    elsewhere = await stage.submit(agent=agent)

    found = [await standing(stage, each) for each in (run, beside, elsewhere)]

    assert tuple(bool(each) for each in found) == expected
    assert found[0] == [{"id": rule, "conditions": {"amount": {"max": 10}}}]


async def test_a_rule_is_for_one_tool_of_one_agent(stage: Stage, agent: str) -> None:
    run, _, _ = await allowed(stage, "agent", agent=agent)
    of_another = await stage.submit()

    assert await standing(stage, run, "look") == []
    assert await standing(stage, of_another) == []


async def test_rules_are_read_oldest_first(stage: Stage, agent: str) -> None:
    run, _, first = await allowed(stage, "agent", agent=agent)
    wait = (await stage.one("select wait from perdure.rules where id = %(r)s", r=first))["wait"]
    later = await make(stage, run, wait, "run", conditions={})

    assert [each["id"] for each in await standing(stage, run)] == [first, later]
