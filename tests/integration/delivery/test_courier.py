"""What is due is handed over at least once, in order, and tried again for three days."""

import time

import anthropic
import psycopg
import pytest
from standardwebhooks.webhooks import WebhookVerificationError

from app.delivery import post
from app.domain.webhooks import ATTEMPTS_IN_ORDER, LIFETIME_SECONDS
from app.store import webhooks
from tests.integration.delivery.conftest import StartCourier
from tests.integration.delivery.deliveries import became, of
from tests.integration.store.stage import Stage
from tests.support.environment import WEBHOOK_SECRET
from tests.support.receiver import Receiver

OTHER_SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"


async def test_what_was_sent_first_is_sent_again(
    stage: Stage, receiver: Receiver, start: StartCourier
) -> None:
    receiver.answer(500, 200)
    run = await stage.submit(callback=receiver.url)
    start()
    (first,) = await receiver.requests(run, 1)
    await stage.take(run)
    _, second = await receiver.requests(run, 2)

    assert (first.id, first.body) == (second.id, second.body)
    assert (first.run["status"], first.said["type"]) == ("queued", "run.queued")
    (delivery,) = await became(stage, run, "delivered")
    assert (delivery["attempts"], delivery["last_status"]) == (2, 200)
    assert delivery["body"] == first.body


async def test_it_is_signed_as_the_sdk_expects(
    stage: Stage, receiver: Receiver, start: StartCourier
) -> None:
    run = await stage.submit(callback=receiver.url)
    start()
    (heard,) = await receiver.requests(run, 1)

    heard.verify()
    with anthropic.Anthropic(api_key="x", webhook_key=WEBHOOK_SECRET) as client:
        event = client.beta.webhooks.unwrap(heard.body, headers=heard.headers)
        with pytest.raises(WebhookVerificationError, match="No matching signature"):
            client.beta.webhooks.unwrap(heard.body, headers=heard.headers, key=OTHER_SECRET)
    assert event.to_dict()["type"] == "run.queued"


async def test_while_a_secret_is_replaced_both_are_good(
    stage: Stage, receiver: Receiver, start: StartCourier
) -> None:
    run = await stage.submit(callback=receiver.url)
    start(f"{OTHER_SECRET}, {WEBHOOK_SECRET}")
    (heard,) = await receiver.requests(run, 1)

    heard.verify(WEBHOOK_SECRET)
    heard.verify(OTHER_SECRET)


@pytest.mark.parametrize("status", [302, 307, 308])
async def test_a_redirect_is_a_failure_and_not_followed(
    stage: Stage, receiver: Receiver, start: StartCourier, status: int
) -> None:
    receiver.answer(status, location=f"http://127.0.0.1:{receiver.port}/inside")
    run = await stage.submit(callback=receiver.url)
    start()
    (delivery,) = await became(stage, run, "delivered")

    assert (delivery["attempts"], receiver.strays) == (2, [])


async def test_gone_is_the_end_of_it(stage: Stage, receiver: Receiver, start: StartCourier) -> None:
    receiver.answer(410)
    run = await stage.submit(callback=receiver.url)
    start()
    (delivery,) = await became(stage, run, "dead")

    assert (delivery["attempts"], delivery["last_status"]) == (1, 410)


async def test_after_three_days_it_is_dead(
    stage: Stage, receiver: Receiver, start: StartCourier
) -> None:
    receiver.answer(500, 500)
    old, new = [await stage.submit(callback=receiver.url) for _ in range(2)]
    for run, left in ((old, 1.0), (new, 100.0)):
        await stage.do(
            """update perdure.deliveries set attempts = 1,
                   first_attempt_at = now() - make_interval(secs => %(age)s)
               where run = %(run)s""",
            run=run,
            age=LIFETIME_SECONDS - left,
        )
    start()

    (delivery,) = await became(stage, old, "dead")
    assert delivery["last_error"] == "the receiver answered 500"
    await became(stage, new, "pending", attempts=2)


async def test_a_busy_receiver_says_when(
    stage: Stage, receiver: Receiver, start: StartCourier
) -> None:
    receiver.answer(503, retry_after="100")
    run = await stage.submit(callback=receiver.url)
    start()
    (delivery,) = await became(stage, run, "pending", attempts=1)

    pause = (delivery["due_at"] - delivery["last_attempt_at"]).total_seconds()
    assert 99 < pause < 110


async def test_an_answer_without_end_is_an_answer(
    stage: Stage, receiver: Receiver, start: StartCourier
) -> None:
    receiver.answer_without_end()
    run = await stage.submit(callback=receiver.url)
    start()

    (delivery,) = await became(stage, run, "delivered")
    assert delivery["attempts"] == 1


async def test_a_receiver_that_hangs_is_given_up(
    stage: Stage, receiver: Receiver, start: StartCourier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(post, "TIMEOUT_SECONDS", 0.5)
    gate = receiver.gate("run.queued")
    run = await stage.submit(callback=receiver.url)
    start()
    await gate.reached()

    (delivery,) = await became(stage, run, "delivered")
    assert delivery["attempts"] == 2


async def test_what_comes_later_waits_for_what_came_before(
    stage: Stage, receiver: Receiver, start: StartCourier
) -> None:
    receiver.answer(500)
    run = await stage.submit(callback=receiver.url)
    start()
    await receiver.requests(run, 1)
    await stage.end(run, await stage.take(run), "succeeded")
    other = await stage.submit(callback=receiver.url)
    await receiver.requests(run, 3)

    heard = [(each.run["id"], each.type) for each in receiver.heard]
    assert [type for name, type in heard if name == run] == [
        *("run.queued", "run.queued", "run.succeeded")
    ]
    assert heard.index((other, "run.queued")) < heard.index((run, "run.succeeded"))


async def test_what_is_long_in_coming_holds_nothing_up(
    stage: Stage, receiver: Receiver, start: StartCourier
) -> None:
    run = await stage.submit(callback=receiver.url)
    await stage.do(
        """update perdure.deliveries set attempts = %(attempts)s, first_attempt_at = now(),
               due_at = now() + interval '5 minutes'
           where run = %(run)s""",
        run=run,
        attempts=ATTEMPTS_IN_ORDER,
    )
    await stage.end(run, await stage.take(run), "succeeded")
    start()

    await became(stage, run, "pending", "delivered")


async def test_two_workers_do_not_deliver_the_same(
    stage: Stage, receiver: Receiver, start: StartCourier, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What a crowded machine cannot write down in time is delivered again.
    monkeypatch.setattr("app.delivery.webhooks.PATIENCE_SECONDS", 15.0)
    runs = [await stage.submit(callback=receiver.url) for _ in range(60)]
    start()
    start()
    for run in runs:
        await became(stage, run, "delivered")

    assert sorted(each.run["id"] for each in receiver.heard) == sorted(runs)


async def test_what_another_is_claiming_is_left_to_it(
    stage: Stage, receiver: Receiver, database_url: str
) -> None:
    run, other = [await stage.submit(callback=receiver.url) for _ in range(2)]
    await stage.do("set lock_timeout = '1s'")
    async with await psycopg.AsyncConnection.connect(database_url) as own:
        (first,) = await webhooks.claim(own, 1, seconds=9.0, attempts_in_order=5)
        (second,) = await webhooks.claim(stage.connection, 9, seconds=9.0, attempts_in_order=5)

    assert (first["run"], second["run"]) == (run, other)


async def test_a_claim_that_nobody_settles_runs_out(
    stage: Stage, receiver: Receiver, start: StartCourier
) -> None:
    run = await stage.submit(callback=receiver.url)
    (lost,) = await webhooks.claim(stage.connection, 9, seconds=1.0, attempts_in_order=5)
    assert await webhooks.claim(stage.connection, 9, seconds=1.0, attempts_in_order=5) == []
    start()
    (delivery,) = await became(stage, run, "delivered")

    assert (delivery["id"], delivery["attempts"]) == (lost["id"], 2)
    late = await webhooks.fail(
        stage.connection,
        lost["id"],
        lost["claimed_until"],
        status=500,
        error="late",
        pause=1.0,
        lifetime=9.0,
    )
    assert late is None
    assert (await of(stage, run))[0]["state"] == "delivered"


async def test_a_run_that_is_not_committed_is_told_to_nobody(
    stage: Stage, receiver: Receiver, start: StartCourier, database_url: str
) -> None:
    start()
    async with await psycopg.AsyncConnection.connect(database_url) as own:
        kept = await Stage(own).submit(callback=receiver.url)
        seen = await stage.submit(callback=receiver.url)
        await became(stage, seen, "delivered")
        assert receiver.types(kept) == []
        await own.commit()
    await receiver.told(kept, "run.queued")


async def test_a_private_address_is_not_called(
    stage: Stage, receiver: Receiver, start: StartCourier
) -> None:
    run = await stage.submit(callback=receiver.url)
    start(allow_private=False)
    (delivery,) = await became(stage, run, "pending", attempts=1)

    assert delivery["last_error"] == "the URL leads to 127.0.0.1, which is not a public address"
    assert receiver.heard == []


async def test_many_that_fail_keep_nobody_from_a_first_attempt(
    stage: Stage, receiver: Receiver
) -> None:
    for _ in range(5):
        await stage.submit(callback=receiver.url)
    await stage.do(
        "update perdure.deliveries set attempts = 7, first_attempt_at = now(), due_at = '2020-1-1'"
    )
    fresh = await stage.submit(callback=receiver.url)

    (claimed,) = await webhooks.claim(stage.connection, 1, seconds=9.0, attempts_in_order=5)
    assert claimed["run"] == fresh


async def test_it_ends_at_once_though_a_receiver_hangs(
    stage: Stage, receiver: Receiver, start: StartCourier
) -> None:
    gate = receiver.gate("run.queued")
    await stage.submit(callback=receiver.url)
    courier = start()
    await gate.reached()

    began = time.monotonic()
    courier.end()
    assert time.monotonic() - began < 3
    await gate.freed()
