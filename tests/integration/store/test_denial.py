"""A denial that ends its run and undoes what it did, where the agent says so."""

import pytest
import pytest_asyncio

from app.domain.canonical import canonical_json
from app.domain.ids import new_run_id
from app.services import waits as answers
from app.services.context import Caller, Services
from tests.integration.store.family import delegate, give_birth, paid, register, undo_of
from tests.integration.store.stage import ALLOW, DENY, Stage

ANN = Caller("ann")
NO = {"decision": "deny", "reason": "Too much."}

pytestmark = pytest.mark.usefixtures("audited_by_hand")


@pytest_asyncio.fixture(autouse=True)
async def _agents(stage: Stage) -> None:
    await register(stage, "desk")
    await register(stage, "strict", on_denial="compensate")


async def asked(stage: Stage, agent: str, *, parked: bool = True) -> tuple[str, int, str]:
    """A run that has paid once and asks whether it may again: the run, its fence, the wait."""
    run = await stage.submit(agent=agent)
    fence = await stage.take(run)
    await paid(stage, run, fence, 1, "pay")
    call, beside = await stage.turn(run, fence, 2, "pay", "pay")
    wait = await stage.ask(run, fence, call)
    await stage.ask(run, fence, beside)
    if parked:
        assert await stage.park(run, fence) == "parked"
    return run, fence, wait


async def test_a_denial_is_only_told_to_the_model_unless_the_agent_says_otherwise(
    stage: Stage,
) -> None:
    run, _, wait = await asked(stage, "desk")

    answer = await stage.resolve(wait, DENY)

    assert (answer["verdict"], answer["leg"], answer["cancelling"]) == ("resolved", 2, None)
    assert (await stage.run(run))["status"] == "queued"


async def test_a_denial_may_cancel_the_run_and_set_its_undoing_going(stage: Stage) -> None:
    run, _, wait = await asked(stage, "strict")

    answer = await stage.resolve(wait, DENY)

    assert answer == {"verdict": "resolved", "run": run, "leg": 2, "cancelling": True}
    found = await stage.run(run)
    assert (found["status"], found["compensate"], found["parked"]) == ("cancelling", True, False)
    told = await stage.told(run)
    assert told[-4:] == ["wait.resolved", "call.denied", "run.cancelling", "wait.cancelled"]
    event = await stage.one(
        "select data from perdure.events where run = %(run)s and type = 'run.cancelling'", run=run
    )
    assert event["data"] == {"by": "ann", "reason": "denied", "compensate": True}


async def test_the_leg_after_a_denial_undoes_and_ends(stage: Stage) -> None:
    run, _, wait = await asked(stage, "strict")
    await stage.resolve(wait, DENY)
    fence = await stage.take(run)

    assert await stage.end(run, fence, "cancelled") == "acting"
    found = await stage.one(
        "select * from perdure.next_compensation(%(run)s, %(fence)s)", run=run, fence=fence
    )
    at = stage.place(run, fence, undo_of(run, found["turn"]))
    await stage.start(at)
    await stage.finish(at)
    assert await stage.end(run, fence, "cancelled") == "ended"


async def test_a_denial_of_a_running_run_is_left_to_its_leg(stage: Stage) -> None:
    run, fence, wait = await asked(stage, "strict", parked=False)

    answer = await stage.resolve(wait, DENY)

    assert (answer["leg"], answer["cancelling"]) == (None, True)
    assert await stage.park(run, fence) == "again"
    assert await stage.begin(run, fence, 3) == "cancel"


@pytest.mark.parametrize("again", [DENY, canonical_json({"decision": "deny"})])
async def test_a_denial_said_twice_cancels_once(stage: Stage, again: str) -> None:
    run, _, wait = await asked(stage, "strict")
    await stage.resolve(wait, DENY)
    told = await stage.told(run)

    answer = await stage.resolve(wait, again)

    assert (answer["verdict"], answer["leg"], answer["cancelling"]) == ("same", None, None)
    assert await stage.told(run) == told


async def test_what_is_allowed_cancels_nothing(stage: Stage) -> None:
    run, _, wait = await asked(stage, "strict")

    assert (await stage.resolve(wait, ALLOW))["cancelling"] is None
    assert (await stage.run(run))["status"] == "queued"


async def test_a_denial_cancels_the_children_in_the_same_commit(
    stage: Stage, services: Services
) -> None:
    found = await give_birth(stage, await stage.submit(agent="strict"), beside="pay")
    wait = await stage.ask(found.id, found.fence, found.second_call)
    assert await stage.park(found.id, found.fence) == "parked"

    await answers.resolve(services, wait, dict(NO), ANN, None)

    child = await stage.run(found.child)
    assert (child["status"], child["compensate"]) == ("cancelled", True)
    assert (await stage.run(found.id))["status"] == "cancelling"
    assert await stage.legs(found.id) == [2]
    assert (await stage.call(found.call))["state"] == "failed"


async def test_a_denial_waits_for_a_child_that_moves(stage: Stage, services: Services) -> None:
    found = await give_birth(stage, await stage.submit(agent="strict"), beside="pay")
    wait = await stage.ask(found.id, found.fence, found.second_call)
    assert await stage.park(found.id, found.fence) == "parked"
    await stage.take(found.child, "w2")

    await answers.resolve(services, wait, dict(NO), ANN, None)

    assert (await stage.run(found.child))["status"] == "cancelling"
    fence = await stage.take(found.id)
    assert await stage.end(found.id, fence, "cancelled") == "acting"
    assert await stage.park(found.id, fence) == "parked"


async def test_a_run_that_denial_ends_starts_no_child(stage: Stage) -> None:
    run = await stage.submit(agent="strict")
    fence = await stage.take(run)
    asking, starting = await stage.turn(run, fence, 1, "pay", "delegate")
    await stage.resolve(await stage.ask(run, fence, asking), DENY)

    assert await delegate(stage, run, fence, starting, new_run_id()) == "cancel"
