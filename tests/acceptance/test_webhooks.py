"""Whoever submitted a run hears of it: at least once, signed, under one id, whatever was down."""

import asyncio
from collections.abc import Iterator

import pytest

from tests.support.client import Client, Json
from tests.support.deployment import Deployment
from tests.support.polling import eventually
from tests.support.receiver import Receiver
from tests.support.scripts import give, refuse, say, together, use


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    receiver.start()
    yield receiver
    receiver.stop()


def back(receiver: Receiver) -> Json:
    return {"url": receiver.url}


@pytest.mark.calm
@pytest.mark.case("B71")
async def test_each_point_that_a_client_waits_for_is_told(
    client: Client, receiver: Receiver
) -> None:
    run = await client.submit(
        use("refund", ref="told"), say("refunded"), callback=back(receiver), metadata={"order": "7"}
    )
    wait = await client.open_wait(run["id"])
    await receiver.told(run["id"], "run.queued", "run.waiting")
    await client.allow(wait["id"])
    await client.succeeded(run["id"])
    heard = await receiver.told(
        run["id"], "run.queued", "run.waiting", "run.resumed", "run.succeeded"
    )
    for each in heard:
        each.verify()
    asked, ended = heard[1].run, heard[-1].run
    assert (asked["status"], [w["id"] for w in asked["waiting_for"]]) == ("waiting", [wait["id"]])
    assert ended == await client.run(run["id"])
    at = {event["type"]: event["at"] for event in await client.events(run["id"])}
    assert [each.said["timestamp"] for each in heard] == [at[each.type] for each in heard]


@pytest.mark.calm
@pytest.mark.case("B71")
async def test_the_end_that_it_came_to_is_told(client: Client, receiver: Receiver) -> None:
    failed = await client.submit(refuse(400), callback=back(receiver))
    cancelled = await client.submit(use("refund", ref="x"), callback=back(receiver))
    await client.open_wait(cancelled["id"])
    assert (await client.cancel(cancelled["id"])).status_code == 202
    *_, told = await receiver.told(failed["id"], "run.queued", "run.failed")
    assert (told.run["status"], told.run["reason"]) == ("failed", "model_error")
    *_, told = await receiver.told(cancelled["id"], "run.queued", "run.waiting", "run.cancelled")
    assert told.run["status"] == "cancelled"


@pytest.mark.calm
async def test_a_run_that_is_reopened_is_told_of_once(client: Client, receiver: Receiver) -> None:
    run = await client.submit(
        use("count", name="a"), say("done"), callback=back(receiver), limits={"turns": 1}
    )
    await receiver.told(run["id"], "run.queued", "run.failed")
    assert (await client.resume(run["id"], turns=5)).status_code == 202
    await receiver.told(run["id"], "run.queued", "run.failed", "run.resumed", "run.succeeded")


@pytest.mark.calm
async def test_what_the_clock_resolves_is_told_to_nobody(
    client: Client, receiver: Receiver
) -> None:
    run = await client.submit(use("sleep_for", seconds=0.2), say("awake"), callback=back(receiver))
    await receiver.told(run["id"], "run.queued", "run.succeeded")
    assert "run.resumed" in await client.event_types(run["id"])


@pytest.mark.calm
async def test_a_question_of_a_child_is_told_to_the_callback_of_its_root(
    client: Client, receiver: Receiver
) -> None:
    run = await client.submit(
        give(use("refund", ref="below"), say("refunded")), say("done"), callback=back(receiver)
    )
    (wait,) = await client.descendants_waits(run["id"], "approval")
    (told,) = await receiver.told(wait["run"], "run.waiting")
    told.verify()
    assert (told.run["parent"], told.run["waiting_for"][0]["id"]) == (run["id"], wait["id"])
    await client.allow(wait["id"])
    await receiver.told(run["id"], "run.queued", "run.succeeded")
    assert receiver.types(wait["run"]) == ["run.waiting"]


@pytest.mark.calm
async def test_somebody_is_reminded_before_it_is_too_late(
    client: Client, receiver: Receiver
) -> None:
    run = await client.submit(use("refund_soon", ref="r"), say("late"), callback=back(receiver))
    await receiver.told(
        run["id"], "run.queued", "run.waiting", "wait.reminder", "run.resumed", "run.succeeded"
    )


@pytest.mark.calm
async def test_two_questions_at_once_are_told_again_while_one_is_open(
    client: Client, receiver: Receiver
) -> None:
    run = await client.submit(
        together(use("refund", ref="a"), use("refund", ref="b")),
        say("done"),
        callback=back(receiver),
    )
    first, second = await client.open_waits(run["id"], count=2)
    await client.allow(first["id"])
    told = await receiver.told(run["id"], "run.queued", "run.waiting", "run.resumed", "run.waiting")
    assert [wait["id"] for wait in told[-1].run["waiting_for"]] == [second["id"]]
    await client.allow(second["id"])
    await client.succeeded(run["id"])


@pytest.mark.case("B71")
async def test_a_receiver_that_was_down_hears_all_in_order_when_it_is_up(
    client: Client, receiver: Receiver
) -> None:
    receiver.stop()
    run = await client.submit(use("count", name="a"), say("done"), callback=back(receiver))
    await client.succeeded(run["id"])
    (queued,) = await tried(client, run["id"], 2)
    assert queued["last_error"].startswith("ConnectError")
    receiver.start()
    await receiver.told(run["id"], "run.queued", "run.succeeded")


async def test_killed_in_the_delivery_it_is_delivered_again_under_the_same_id(
    client: Client, deployment: Deployment, receiver: Receiver
) -> None:
    gate = receiver.gate("run.succeeded")
    run = await client.submit(say("done"), callback=back(receiver))
    await gate.reached()
    await deployment.crash()
    await gate.freed()
    _, first, second = await receiver.requests(run["id"], 3, within=30)
    assert (first.type, first.id, first.body) == ("run.succeeded", second.id, second.body)
    second.verify()


async def test_a_worker_that_leaves_does_not_wait_for_a_receiver_that_hangs(
    client: Client, deployment: Deployment, receiver: Receiver
) -> None:
    gate = receiver.gate("run.queued")
    run = await client.submit(say("done"), callback=back(receiver))
    await gate.reached()
    await client.succeeded(run["id"])
    async with asyncio.timeout(8):
        assert await deployment.terminate() == 0


async def test_a_dead_letter_is_delivered_when_it_is_asked_for(
    client: Client, receiver: Receiver
) -> None:
    receiver.answer(410)
    run = await client.submit(say("done"), callback=back(receiver))
    await receiver.told(run["id"], "run.queued", "run.succeeded")
    (dead,) = await client.deliveries(run["id"], state="dead")
    assert (dead["type"], dead["attempts"], dead["last_status"]) == ("run.queued", 1, 410)
    response = await client.redeliver(dead["id"])
    assert (response.status_code, response.json()["state"]) == (202, "pending")
    first, _, again = await receiver.requests(run["id"], 3, within=30)
    assert (first.id, first.body) == (again.id, again.body)

    async def delivered() -> bool:
        return len(await client.deliveries(run["id"], state="delivered")) == 2

    await eventually(delivered, "both have been delivered")


async def test_a_private_address_is_refused_where_it_is_not_allowed(
    client: Client, deployment: Deployment, receiver: Receiver
) -> None:
    await deployment.crash(PERDURE_WEBHOOK_ALLOW_PRIVATE="0")
    run = await client.submit(say("done"), callback=back(receiver))
    await client.succeeded(run["id"])
    (queued,) = await tried(client, run["id"], 1)
    assert queued["last_error"].endswith("leads to 127.0.0.1, which is not a public address")
    assert deployment.api is not None
    deployment.api.kill9()
    deployment.start_api(PERDURE_WEBHOOK_ALLOW_PRIVATE="0")
    await deployment.ready()
    refused = await client.post_run({"agent": "desk", "input": "x", "callback": back(receiver)})
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["field"] == "callback.url"
    assert receiver.heard == []


async def tried(client: Client, run: str, attempts: int) -> list[Json]:
    """The deliveries of a run that have been tried so often, once there is one."""

    async def probe() -> list[Json] | None:
        found = await client.deliveries(run, state="pending")
        return [
            each for each in found if each["last_error"] and each["attempts"] >= attempts
        ] or None

    return await eventually(probe, f"{run} has been told of {attempts} times")
