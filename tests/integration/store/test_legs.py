"""Taking, parking, handing off: the borders of a leg, under its own fence and under an old one."""

import pytest

from app.store import runs, workers
from tests.integration.store.stage import ALLOW, Stage


async def test_the_first_execution_starts_the_run(stage: Stage) -> None:
    run = await stage.submit()

    fence = await stage.take(run)

    found = await stage.run(run)
    assert (found["status"], found["owner"], found["fence"]) == ("running", "w1", fence)
    assert (found["legs_started"], found["attempt"]) == (1, 1)
    assert found["started_at"] is not None
    assert await stage.told(run) == ["run.queued", "run.started"]


async def test_a_second_execution_of_a_leg_is_an_attempt_under_a_higher_fence(stage: Stage) -> None:
    run = await stage.submit()
    first = await stage.take(run)

    second = await stage.take(run)

    assert second > first
    assert (await stage.run(run))["attempt"] == 2
    assert await stage.told(run) == ["run.queued", "run.started", "run.resumed"]


async def test_taking_sent_twice_is_one_execution(stage: Stage) -> None:
    run = await stage.submit()
    await stage.worker("w1")
    first = await runs.take(stage.connection, run, 1, "w1", "w1/x")

    assert await runs.take(stage.connection, run, 1, "w1", "w1/x") == first
    assert (await stage.run(run))["attempt"] == 1
    assert await stage.told(run) == ["run.queued", "run.started"]


async def test_an_execution_by_another_worker_is_a_takeover_that_names_the_first(
    stage: Stage,
) -> None:
    run = await stage.submit()
    await stage.take(run, "w1")

    await stage.take(run, "w2")

    assert await stage.told(run) == ["run.queued", "run.started", "run.taken_over", "run.resumed"]
    event = await stage.one(
        "select data from perdure.events where run = %(run)s and type = 'run.taken_over'", run=run
    )
    assert (event["data"]["from_worker"], event["data"]["worker"]) == ("w1", "w2")


async def test_a_dead_worker_takes_nothing(stage: Stage) -> None:
    run = await stage.submit()
    await stage.worker("gone")
    await workers.give_up(stage.connection, "gone", "lease_lost")

    assert await runs.take(stage.connection, run, 1, "gone", "x") == ("dead", 0)
    assert await runs.take(stage.connection, run, 1, "nobody", "x") == ("dead", 0)
    assert (await stage.run(run))["fence"] == 0


@pytest.mark.parametrize("leg", [0, 2])
async def test_a_leg_that_is_not_the_runs_takes_nothing(stage: Stage, leg: int) -> None:
    run = await stage.submit()
    await stage.worker("w1")

    assert await runs.take(stage.connection, run, leg, "w1", "x") == ("moved", 0)
    assert await stage.told(run) == ["run.queued"]


@pytest.mark.parametrize("state", ["held", "waiting", "ended", "missing"])
async def test_a_run_that_is_not_to_move_is_not_taken(stage: Stage, state: str) -> None:
    await stage.worker("w1")
    if state == "waiting":
        run, fence, call = await stage.calling()
        await stage.ask(run, fence, call)
        assert await stage.park(run, fence) == "parked"
    else:
        run = await stage.submit(held=state == "held")
    if state == "ended":
        assert await stage.end(run, None, "cancelled") == "ended"

    leg = (await stage.run(run))["leg"]
    asked = "run_nobody" if state == "missing" else run
    assert await runs.take(stage.connection, asked, leg, "w1", "x") == ("moved", 0)


async def test_a_cancelling_run_is_taken_to_be_settled(stage: Stage) -> None:
    run = await stage.submit()
    await stage.ask_cancel(run)

    await stage.take(run)

    assert (await stage.run(run))["status"] == "cancelling"


async def test_parking_lets_the_run_go_and_names_what_it_waits_for(stage: Stage) -> None:
    run, fence, call = await stage.calling()
    wait = await stage.ask(run, fence, call)

    assert await stage.park(run, fence) == "parked"

    found = await stage.run(run)
    assert (found["status"], found["leg"], found["owner"]) == ("waiting", 2, None)
    assert found["fence"] > fence
    assert found["active_since"] is None
    event = await stage.one(
        "select data from perdure.events where run = %(run)s and type = 'run.waiting'", run=run
    )
    assert [each["id"] for each in event["data"]["waits"]] == [wait]


async def test_parking_sent_twice_parks_once(stage: Stage) -> None:
    run, fence, call = await stage.calling()
    await stage.ask(run, fence, call)
    assert await runs.park(stage.connection, run, fence, 1) == "parked"

    assert await runs.park(stage.connection, run, fence, 1) == "over"
    assert (await stage.told(run)).count("run.waiting") == 1


async def test_parking_under_an_old_fence_is_refused(stage: Stage) -> None:
    run, fence, call = await stage.calling()
    await stage.ask(run, fence, call)
    await stage.take(run, "w2")

    assert await stage.park(run, fence) == "fenced"
    assert (await stage.run(run))["status"] == "running"


async def test_a_run_is_not_parked_while_something_can_be_done(stage: Stage) -> None:
    run, fence, call = await stage.calling("pay", "pay")
    wait = await stage.ask(run, fence, call)

    assert await stage.park(run, fence) == "again"  # the second call has not even begun
    await stage.finish(stage.place(run, fence, call[:-1] + "1", 0), "failed")
    assert await stage.park(run, fence) == "parked"
    assert (await stage.resolve(wait, ALLOW))["leg"] == 2


async def test_a_run_is_not_parked_on_what_has_been_resolved_meanwhile(stage: Stage) -> None:
    run, fence, call = await stage.calling()
    wait = await stage.ask(run, fence, call)
    assert (await stage.resolve(wait, ALLOW))["leg"] is None  # it does not wait yet

    assert await stage.park(run, fence) == "again"


async def test_a_run_that_waits_for_nothing_is_not_parked(stage: Stage) -> None:
    run = await stage.submit()
    fence = await stage.take(run)

    assert await stage.park(run, fence) == "again"


async def test_a_cancelling_run_is_not_parked(stage: Stage) -> None:
    run, fence, call = await stage.calling()
    await stage.ask(run, fence, call)
    await stage.ask_cancel(run)

    assert await stage.park(run, fence) == "again"


async def test_handing_off_leaves_the_run_to_whoever_comes(stage: Stage) -> None:
    run = await stage.submit()
    fence = await stage.take(run)

    assert await runs.hand_off(stage.connection, run, fence, 1, "drain") == "handed_off"

    found = await stage.run(run)
    assert (found["status"], found["leg"], found["owner"]) == ("queued", 2, None)
    assert found["fence"] > fence
    assert await runs.hand_off(stage.connection, run, fence, 1, "drain") == "over"
    assert await stage.told(run) == ["run.queued", "run.started", "run.handed_off"]


async def test_handing_off_under_an_old_fence_is_refused(stage: Stage) -> None:
    run = await stage.submit()
    fence = await stage.take(run)
    await stage.take(run, "w2")

    assert await runs.hand_off(stage.connection, run, fence, 1, "drain") == "fenced"
    assert (await stage.run(run))["leg"] == 1


async def test_a_cancel_is_handed_over_with_the_run(stage: Stage) -> None:
    run = await stage.submit()
    fence = await stage.take(run)
    await stage.ask_cancel(run)

    assert await runs.hand_off(stage.connection, run, fence, 1, "drain") == "handed_off"
    assert (await stage.run(run))["status"] == "cancelling"


async def test_only_active_time_is_counted(stage: Stage) -> None:
    run, fence, call = await stage.calling()
    await stage.ask(run, fence, call)
    await stage.do(
        "update perdure.runs set active_since = now() - interval '7 s' where id = %(run)s", run=run
    )

    await stage.park(run, fence)

    assert 7 <= (await stage.run(run))["active_seconds"] < 9
