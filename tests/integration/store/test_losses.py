"""Losses: runs that workers die of, counted until they are carried out alone."""

import pytest

from app.store import calls, workers
from tests.integration.store.breaches import hold_lease
from tests.integration.store.family import paid, register, undo_of
from tests.integration.store.stage import Stage


async def lose(stage: Stage, run: str, worker: str, queue: str = "agents") -> str:
    """Its worker dies with the leg in hand; what the janitor is told to do with the leg."""
    leg = (await stage.run(run))["leg"]
    await stage.journal(run, "PENDING", worker, queue=queue)
    await workers.give_up(stage.connection, worker, "proved")
    return await workers.take_over(stage.connection, run, leg, worker)


async def test_a_run_whose_calls_cost_two_workers_is_isolated(alone: Stage) -> None:
    run, _, _ = await alone.calling(worker="one")

    assert await lose(alone, run, "one") == "resume"
    await alone.take(run, "two")
    assert await lose(alone, run, "two") == "isolate"


async def test_a_run_that_costs_two_isolated_processes_more_is_buried(alone: Stage) -> None:
    run, _, _ = await alone.calling(worker="one")
    assert await lose(alone, run, "one") == "resume"
    await alone.take(run, "two")
    assert await lose(alone, run, "two") == "isolate"
    assert await workers.carry_on(alone.connection, run, 1, "died", is_breach=False) == 2
    await alone.take(run, "three")
    assert await lose(alone, run, "three", "suspects") == "resume"
    await alone.take(run, "four")
    assert await lose(alone, run, "four", "suspects") == "isolate"

    assert await workers.carry_on(alone.connection, run, 2, "died", is_breach=False) is None

    found = await alone.run(run)
    assert (found["status"], found["error"]["detail"]) == ("dead_letter", "died")


async def test_a_loss_counts_once_however_often_it_is_looked_at(alone: Stage) -> None:
    run, _, _ = await alone.calling(worker="one")

    assert [await lose(alone, run, "one") for _ in range(3)] == ["resume"] * 3
    assert (await alone.run(run))["losses"] == 1


@pytest.mark.parametrize("when", ["before a turn", "in a model call", "after its calls"])
async def test_a_loss_while_no_code_of_a_users_runs_counts_for_nothing(
    alone: Stage, when: str
) -> None:
    run = await alone.submit()
    fence = await alone.take(run, "one")
    if when == "in a model call":
        await alone.begin(run, fence)
    if when == "after its calls":
        (call,) = await alone.turn(run, fence, 1, "pay")
        await alone.do(
            "update perdure.calls set state = 'denied', finished_at = now() where id = %(call)s",
            call=call,
        )

    await lose(alone, run, "one")

    assert (await alone.run(run))["losses"] == 0


async def test_a_worker_that_was_told_to_stop_is_no_loss(alone: Stage) -> None:
    run, _, _ = await alone.calling(worker="one")
    await workers.leave(alone.connection, "one")

    await lose(alone, run, "one")

    assert (await alone.run(run))["losses"] == 0


async def test_a_run_that_gets_somewhere_has_lost_nothing(alone: Stage) -> None:
    run, _, call = await alone.calling(worker="one")
    await lose(alone, run, "one")
    fence = await alone.take(run, "two")

    await alone.lose(run, fence, call)

    assert (await alone.run(run))["losses"] == 0


async def test_a_loss_while_something_is_undone_counts_though_a_model_call_was_cut(
    alone: Stage,
) -> None:
    await register(alone, "undoing")
    run = await alone.submit(agent="undoing")
    fence = await alone.take(run, "one")
    await paid(alone, run, fence, 1, "pay")
    assert await alone.begin(run, fence, 2) == "call"
    await alone.ask_cancel(run, compensate=True)
    await alone.fail(run, fence, 2, retry=None)
    found = await calls.next_compensation(alone.connection, run, fence)
    undo = undo_of(run, found["turn"], found["index"])
    await alone.start(alone.place(run, fence, undo, worker="one"))

    await lose(alone, run, "one")

    assert (await alone.run(run))["losses"] == 1


@pytest.mark.parametrize(
    ("have_it", "chosen"), [("", "one"), ("one two", "one"), ("two three", "two"), ("three", "one")]
)
async def test_a_suspect_goes_to_the_first_worker_that_has_its_agent(
    alone: Stage, have_it: str, chosen: str
) -> None:
    """The third one is leaving, and a fourth has lost its lease."""
    run = await alone.submit()
    await alone.journal(run, "ENQUEUED", queue="suspects")
    for worker in ("one", "two", "three", "four"):
        await alone.worker(worker)
        await alone.do(
            """update perdure.workers set agents = %(agents)s::jsonb,
                   started_at = now() + make_interval(secs => lock) where id = %(worker)s""",
            agents='["desk"]' if worker in f"{have_it} four" else "[]",
            worker=worker,
        )
        if worker != "four":
            await hold_lease(alone, worker)
    await workers.leave(alone.connection, "three")

    asked = [
        worker
        for worker in ("one", "two", "three", "four")
        if await workers.has_to_isolate(alone.connection, worker)
    ]
    assert asked == [chosen]
