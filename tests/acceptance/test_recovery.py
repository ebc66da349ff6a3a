"""What is over stays over; what is not goes on, wherever the processes died."""

import asyncio

import pytest

from tests.support.client import Client
from tests.support.deployment import Deployment
from tests.support.scripts import Step, say, use
from tests.support.world import World


@pytest.mark.case("A23")
async def test_ended_runs_stay_ended_over_a_restart(
    world: World, client: Client, deployment: Deployment
) -> None:
    succeeded = await client.submit(use("pay_idem", ref="a23"), say("paid"))
    await client.succeeded(succeeded["id"])
    cancelled = await client.submit(use("refund", ref="a23-cancelled"), say("refunded"))
    await client.open_wait(cancelled["id"])
    await client.cancel(cancelled["id"])
    await client.wait_for(cancelled["id"], "cancelled")
    before = [await client.run(run["id"]) for run in (succeeded, cancelled)]
    asked = len(world.model.requests)

    await deployment.restart()
    later = await client.submit(say("alive"), preface="<later>")
    await client.succeeded(later["id"])
    after = [await client.run(run["id"]) for run in (succeeded, cancelled)]
    assert after == before
    assert world.model.requests[asked:] == world.model.about("<later>")
    assert len(world.payments.calls) == 1


async def test_a_run_accepted_while_no_worker_lives_is_carried_out_later(
    world: World, client: Client, deployment: Deployment
) -> None:
    deployment.kill9()
    run = await client.submit(use("pay_idem", ref="later"), say("paid"))
    assert (await client.run(run["id"]))["status"] == "queued"
    await deployment.start_worker()
    await client.succeeded(run["id"])
    assert len(world.payments.ledger) == 1


@pytest.mark.case("A37")
async def test_a_decision_taken_while_no_worker_lives_is_carried_out_later(
    world: World, client: Client, deployment: Deployment
) -> None:
    run = await client.submit(use("refund", ref="a37"), say("refunded"))
    wait = await client.open_wait(run["id"])
    deployment.kill9()
    await client.allow(wait["id"])
    assert world.payments.calls == []
    await deployment.start_worker()
    await client.succeeded(run["id"])
    assert len(world.payments.calls) == 1


async def test_kill_again_in_the_recovery_itself_repeats_nothing(
    world: World, client: Client, deployment: Deployment
) -> None:
    first, second = world.gate("pay:after", nth=1), world.gate("pay:after", nth=2)
    run = await client.submit(use("count", name="a"), use("pay_idem", ref="twice"), say("paid"))
    await first.reached()
    await deployment.crash()
    await second.reached()
    await deployment.crash()
    await client.succeeded(run["id"])
    assert world.effects.count("a") == 1
    assert len({call.key for call in world.payments.calls}) == 1
    assert (len(world.payments.calls), len(world.payments.ledger)) == (3, 1)
    assert world.model.steps() == [0, 1, 2]


async def test_kill_of_every_process_at_once_loses_nothing(
    world: World, client: Client, deployment: Deployment
) -> None:
    gate = world.gate("pay:after")
    run = await client.submit(use("pay_idem", ref="all"), say("paid"))
    await gate.reached()
    await deployment.restart()
    await client.succeeded(run["id"])
    assert len(world.payments.ledger) == 1


@pytest.mark.case("B28")
async def test_kill_in_a_tool_of_each_policy_leaves_no_unpaired_call(
    world: World, client: Client, deployment: Deployment
) -> None:
    gates = [world.gate(point) for point in ("doc:before", "c:after", "pay:after", "note_tx:after")]
    steps: dict[str, Step] = {
        "<read_only>": use("doc_read", name="d"),
        "<idempotent>": use("count", name="c"),
        "<at_most_once>": use("pay_once", ref="p"),
        "<transactional>": use("note_tx", text="n"),
    }
    runs = [
        await client.submit(step, say("done"), preface=policy) for policy, step in steps.items()
    ]
    for gate in gates:
        await gate.reached()
    await deployment.crash()
    for run in runs:
        await client.succeeded(run["id"])
    for policy in steps:
        assert world.model.steps(policy) == [0, 1]
        assert world.model.statuses(policy) == [200, 200]
        assert len(world.model.about(policy)[-1].last_results) == 1


async def test_kill_of_a_worker_with_many_runs_ends_them_all(
    world: World, client: Client, deployment: Deployment
) -> None:
    refs = [f"many-{n}" for n in range(20)]
    gate = world.gate("pay:after", span=len(refs))
    runs = [await client.submit(use("pay_idem", ref=ref), say("paid")) for ref in refs]
    await gate.reached(holding=len(refs))
    await deployment.crash()
    await asyncio.gather(*(client.succeeded(run["id"], within=60) for run in runs))
    assert [len(world.payments.rows_for(ref)) for ref in refs] == [1] * len(refs)


async def test_a_second_worker_leaves_the_runs_of_a_living_one_alone(
    world: World, client: Client, deployment: Deployment
) -> None:
    gate = world.gate("pay:before")
    run = await client.submit(use("pay_once", ref="mine"), say("paid"))
    await gate.reached()
    await deployment.start_worker()
    later = await client.submit(say("alive"))
    await client.succeeded(later["id"])
    gate.open()
    await client.succeeded(run["id"])
    assert len(world.payments.calls) == 1
    assert (await client.call(run["id"]))["attempts"] == 1
    assert "run.taken_over" not in await client.event_types(run["id"])


async def test_a_worker_that_is_told_to_stop_hands_its_run_on(
    world: World, client: Client, deployment: Deployment
) -> None:
    gate = world.gate("pay:before")
    run = await client.submit(use("pay_once", ref="drain"), say("paid"))
    await gate.reached()
    leaver = deployment.worker
    leaving = asyncio.create_task(deployment.terminate(leaver))
    await deployment.start_worker()
    gate.open()
    await client.succeeded(run["id"], within=40)
    assert await leaving == 0
    assert len(world.payments.calls) == 1
    call = await client.call(run["id"])
    assert (call["state"], call["attempts"]) == ("succeeded", 1)


async def test_events_are_numbered_without_gaps_and_end_once(
    world: World, client: Client, deployment: Deployment
) -> None:
    gate = world.gate("pay:after")
    run = await client.submit(use("pay_idem", ref="events"), say("paid"))
    await gate.reached()
    await deployment.crash()
    await client.succeeded(run["id"])
    events = await client.events(run["id"])
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    types = [event["type"] for event in events]
    assert types[0] == "run.queued"
    assert types[-1] == "run.succeeded"
    assert types.count("run.succeeded") == 1
    assert types.count("call.proposed") == 1
