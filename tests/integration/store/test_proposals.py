"""Proposals of a leg against the real ledger: when a rule answers, and when a person must."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from app import Agent, ToolContext, tool
from app.durable import ledger, proposal
from app.durable.execution import Bench
from app.services.context import Services
from app.store import agents, rules
from tests.integration.store.legwork import benched, execute
from tests.integration.store.stage import ALLOW, ARGUMENTS, Stage

WORLD = {"version": 1}


async def world(ctx: ToolContext, args: dict[str, Any]) -> dict[str, int]:
    return dict(WORLD)


@tool(replay="idempotent", approval="always", precondition=world)
async def pay(ref: str, amount: int) -> None:
    """Pay somebody."""


CAREFUL = Agent(name="careful", model="claude-test", tools=[pay])

pytestmark = pytest.mark.usefixtures("audited_by_hand")


@pytest_asyncio.fixture
async def bench(stage: Stage, services: Services) -> AsyncIterator[Bench]:
    WORLD["version"] = 1
    await agents.register(stage.connection, CAREFUL.name, "v1", CAREFUL.definition())
    async with benched(services, [CAREFUL]) as bench:
        yield bench


async def asking(stage: Stage, bench: Bench) -> tuple[str, int, str]:
    """A run that is about to propose two payments: the run, its fence, the first call."""
    run, fence, call = await stage.calling("pay", "pay", agent="careful")
    await execute(bench, run, fence)
    return run, fence, call


async def propose(run: str, index: int = 0) -> None:
    assert await proposal.propose(await ledger.load(run, 1, index)) is None


async def give_rule(stage: Stage, call: str, **bounds: Any) -> str:
    """Allows the call, and with it a rule for its run."""
    wait = await stage.open_wait(call)
    await stage.resolve(wait, ALLOW)
    made = await rules.insert(
        stage.connection, wait, scope="run", conditions={"amount": bounds}, expires_at=None
    )
    assert made is not None
    return made


async def waits_of(stage: Stage, call: str) -> list[tuple[str, str | None]]:
    found = await stage.connection.execute(
        """select state, resolved_via from perdure.waits where call = %(call)s
           order by created_at""",
        {"call": call},
    )
    return [(state, via) for state, via in await found.fetchall()]


async def test_what_fits_a_rule_is_allowed_with_what_was_seen(stage: Stage, bench: Bench) -> None:
    run, _, call = await asking(stage, bench)
    await propose(run)
    assert await waits_of(stage, call) == [("open", None)]
    rule = await give_rule(stage, call, max=ARGUMENTS["amount"])

    await propose(run, 1)

    assert await waits_of(stage, f"{call[:-1]}1") == [("resolved", "rule")]
    second = await ledger.load(run, 1, 1)
    assert (second.state, second.row["shown"]) == ("ready", {"version": 1})
    assert await proposal.may_run(second, pay)
    assert rule


async def test_what_does_not_fit_asks_a_person(stage: Stage, bench: Bench) -> None:
    run, _, call = await asking(stage, bench)
    await propose(run)
    await give_rule(stage, call, max=0)

    await propose(run, 1)

    assert await waits_of(stage, f"{call[:-1]}1") == [("open", None)]


async def test_a_world_that_has_changed_asks_a_person_whatever_rule_there_is(
    stage: Stage, bench: Bench
) -> None:
    run, _, call = await asking(stage, bench)
    await propose(run)
    await give_rule(stage, call, max=10)
    await propose(run, 1)
    WORLD["version"] = 2

    assert not await proposal.may_run(await ledger.load(run, 1, 1), pay)

    second = f"{call[:-1]}1"
    assert await waits_of(stage, second) == [("superseded", "rule"), ("open", None)]
    asked = await stage.wait(await stage.open_wait(second))
    assert asked["evidence"] == {"version": 2}
    assert '{"version":1} has become {"version":2}' in asked["question"]


async def test_an_unknown_outcome_asks_a_person_whatever_rule_there_is(
    stage: Stage, bench: Bench
) -> None:
    run, fence, call = await asking(stage, bench)
    await propose(run)
    await give_rule(stage, call, max=10)
    await stage.lose(run, fence, call)

    await propose(run, 1)

    second = f"{call[:-1]}1"
    assert await waits_of(stage, second) == [("open", None)]
    assert "still unknown" in (await stage.wait(await stage.open_wait(second)))["question"]
