"""Takeover, and the runs that nothing carries any more."""

import pytest

from app.domain.ids import new_session_id
from app.store import runs, sessions, workers
from tests.integration.store.stage import ALLOW, HAPPENED, Stage, intent


async def stranded(stage: Stage, run: str) -> str | None:
    found = {each["run"]: each["why"] for each in await workers.stranded(stage.connection)}
    return found.get(run)


async def carry_on(stage: Stage, run: str) -> int | None:
    leg = (await stage.run(run))["leg"]
    return await workers.carry_on(stage.connection, run, leg, "its leg is ERROR")


async def test_a_dead_workers_leg_is_resumed_under_a_fence_that_refuses_it(stage: Stage) -> None:
    run, fence, call = await stage.calling()
    await stage.journal(run, "PENDING", "w1")

    assert await workers.take_over(stage.connection, run, 1, "w1") == "resume"

    assert await stage.start(stage.place(run, fence, call)) == "fenced"
    assert (await stage.run(run))["fence"] > fence


async def test_time_in_which_nobody_worked_is_not_the_runs(stage: Stage) -> None:
    await stage.worker("slept")
    run = await stage.submit()
    await stage.take(run, "slept")
    await stage.journal(run, "PENDING", "slept")
    await stage.do(
        """with beat as (update perdure.workers set last_beat_at = now() - interval '90 s'
                         where id = 'slept')
           update perdure.runs set active_since = now() - interval '100 s' where id = %(run)s""",
        run=run,
    )

    await workers.take_over(stage.connection, run, 1, "slept")

    found = await stage.run(run)
    assert found["active_seconds"] == pytest.approx(10, abs=0.5)
    assert found["active_since"] is None


@pytest.mark.parametrize("over", ["ended", "next leg", "missing"])
async def test_a_leg_that_its_run_has_left_behind_is_dropped(stage: Stage, over: str) -> None:
    run = await stage.submit()
    fence = await stage.take(run)
    await stage.journal(run, "PENDING", "w1", leg=1)
    if over == "ended":
        await stage.end(run, fence, "succeeded")
    if over == "next leg":
        await runs.hand_off(stage.connection, run, fence, 1, "drain")

    asked = "run_nobody" if over == "missing" else run
    assert await workers.take_over(stage.connection, asked, 1, "w1") == "drop"


async def test_a_leg_whose_worker_died_before_it_took_the_run_is_resumed(stage: Stage) -> None:
    """Its owner is still the one before: a takeover that died as well, or a leg given back."""
    run = await stage.submit()
    await stage.take(run, "w1")
    await stage.journal(run, "PENDING", "w2")

    assert await workers.take_over(stage.connection, run, 1, "w2") == "resume"


@pytest.mark.parametrize(
    ("status", "worker"), [("PENDING", "w2"), ("ENQUEUED", "w1"), ("SUCCESS", "w1")]
)
async def test_a_leg_that_is_not_the_dead_workers_any_more_is_left_alone(
    stage: Stage, status: str, worker: str
) -> None:
    run = await stage.submit()
    fence = await stage.take(run, "w2")
    await stage.journal(run, status, worker)

    assert await workers.take_over(stage.connection, run, 1, "w1") == "gone"
    assert (await stage.run(run))["fence"] == fence


async def test_only_legs_of_workers_that_were_given_up_are_taken(alone: Stage) -> None:
    taken, ours = await alone.submit(), await alone.submit()
    await alone.take(taken, "gone")
    await alone.take(ours, "alive")
    await alone.journal(taken, "PENDING", "gone")
    await alone.journal(ours, "PENDING", "alive")
    await workers.give_up(alone.connection, "gone", "proved")

    found = await workers.legs_of_the_dead(alone.connection)

    assert found == [{"workflow": f"{taken}:1", "worker": "gone", "queue": "agents"}]


@pytest.mark.parametrize("status", ["ENQUEUED", "DELAYED", "PENDING"])
async def test_a_run_whose_leg_is_on_its_way_is_not_stranded(stage: Stage, status: str) -> None:
    run = await stage.submit()
    await stage.journal(run, status)

    assert await stranded(stage, run) is None


@pytest.mark.parametrize("status", ["SUCCESS", "ERROR", "CANCELLED"])
@pytest.mark.parametrize("cancelling", [False, True])
async def test_a_run_whose_leg_is_over_in_the_journal_is_stranded(
    stage: Stage, status: str, cancelling: bool
) -> None:
    run = await stage.submit()
    await stage.journal(run, status)
    if cancelling:
        await stage.ask_cancel(run)

    assert status in str(await stranded(stage, run))


async def test_a_run_whose_leg_was_never_enqueued_is_stranded(stage: Stage) -> None:
    assert "not in the journal" in str(await stranded(stage, await stage.submit()))


@pytest.mark.parametrize("state", ["held", "waiting", "ended"])
async def test_a_run_that_is_not_to_move_is_not_stranded(stage: Stage, state: str) -> None:
    if state == "waiting":
        run, fence, call = await stage.calling()
        await stage.ask(run, fence, call)
        await stage.park(run, fence)
    else:
        run = await stage.submit(held=state == "held")
        if state == "ended":
            await stage.end(run, None, "cancelled")

    assert await stranded(stage, run) is None


async def test_a_run_that_waits_for_nothing_is_stranded_and_carried_on(stage: Stage) -> None:
    run, fence, call = await stage.calling()
    wait = await stage.ask(run, fence, call)
    await stage.park(run, fence)
    await stage.resolve(wait, ALLOW)
    await stage.do(
        "update perdure.runs set status = 'waiting', parked = true where id = %(run)s", run=run
    )

    assert await stranded(stage, run) == "it waits for nothing"
    assert await carry_on(stage, run) == 3
    assert (await stage.run(run))["status"] == "queued"


async def test_a_stranded_run_goes_on_with_its_next_leg(stage: Stage) -> None:
    run = await stage.submit()
    fence = await stage.take(run)

    assert await workers.carry_on(stage.connection, run, 1, "its leg is ERROR") == 2
    assert await workers.carry_on(stage.connection, run, 1, "its leg is ERROR") is None

    found = await stage.run(run)
    assert (found["status"], found["owner"], found["breaches"]) == ("queued", None, 1)
    assert found["fence"] > fence


async def test_the_third_breach_without_progress_is_a_dead_letter(stage: Stage) -> None:
    run = await stage.submit()

    assert [await carry_on(stage, run) for _ in range(3)] == [2, 3, None]

    found = await stage.run(run)
    assert (found["status"], found["reason"]) == ("dead_letter", "internal")
    assert found["error"] == {"type": "internal", "detail": "its leg is ERROR"}
    assert (await stage.told(run))[-1] == "run.dead_letter"


@pytest.mark.parametrize("progress", ["turn", "call", "park"])
async def test_progress_forgives_earlier_breaches(stage: Stage, progress: str) -> None:
    run = await stage.submit()
    await carry_on(stage, run)
    await carry_on(stage, run)
    fence = await stage.take(run)
    await stage.begin(run, fence)
    await stage.answer(run, fence, 1, "pay")
    call = f"call_{run[4:]}_1_0"
    if progress == "call":
        await stage.do("update perdure.runs set breaches = 2 where id = %(run)s", run=run)
        await stage.finish(stage.place(run, fence, call), what=intent("read_only"))
    if progress == "park":
        await stage.do("update perdure.runs set breaches = 2 where id = %(run)s", run=run)
        await stage.ask(run, fence, call)
        await stage.park(run, fence)

    assert (await stage.run(run))["breaches"] == 0


@pytest.mark.parametrize("cancelling", [False, True])
async def test_a_dead_letter_leaves_nothing_open(stage: Stage, cancelling: bool) -> None:
    run, fence, begun = await stage.calling("pay", "pay")
    asked = begun[:-1] + "1"
    await stage.start(stage.place(run, fence, begun))
    wait = await stage.ask(run, fence, asked)
    if cancelling:
        await stage.ask_cancel(run)
    await stage.do("update perdure.runs set breaches = 2 where id = %(run)s", run=run)

    await carry_on(stage, run)

    assert (await stage.run(run))["status"] == "dead_letter"
    states = [(await stage.call(call))["state"] for call in (begun, asked)]
    assert states == ["outcome_unknown", "cancelled"]
    assert (await stage.wait(wait))["state"] == "cancelled"
    assert (await stage.resolve(wait, HAPPENED))["verdict"] == "closed"
    told = await stage.told(run)
    assert told[-2:] == ["call.cancelled", "run.dead_letter"]
    assert [told.count(each) for each in ("call.outcome_unknown", "wait.cancelled")] == [1, 1]


async def test_a_held_run_without_a_holder_is_found(stage: Stage) -> None:
    session = new_session_id()
    holder = await stage.submit(session=session)
    held = await stage.submit(session=session, held=True)
    assert held not in [each["run"] for each in await workers.forgotten(stage.connection)]

    await stage.end(holder, None, "cancelled")

    assert {"run": held, "session": session, "target": None} in await workers.forgotten(
        stage.connection
    )
    await sessions.release_held(stage.connection, session, None)
    assert held not in [each["run"] for each in await workers.forgotten(stage.connection)]


@pytest.mark.parametrize("away", ["dead", "leaving", "isolated"])
async def test_an_agent_is_there_while_a_worker_that_takes_its_runs_lives(
    stage: Stage, away: str
) -> None:
    worker = await stage.worker(f"clerk of those that are {away}")
    await stage.do(
        "update perdure.workers set agents = jsonb_build_array(id) where id = %(worker)s",
        worker=worker,
    )
    assert await workers.has_agent(stage.connection, worker)

    await stage.do(
        """update perdure.workers set dead_at = case when %(away)s = 'dead' then now() end,
               death = case when %(away)s = 'dead' then 'proved' end,
               leaving = %(away)s = 'leaving', isolated = %(away)s = 'isolated'
           where id = %(worker)s""",
        worker=worker,
        away=away,
    )
    assert not await workers.has_agent(stage.connection, worker)
