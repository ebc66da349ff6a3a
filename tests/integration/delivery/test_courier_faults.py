"""What fails in a way that nobody has thought of keeps no delivery from being tried again."""

import pytest

from app.services import webhooks as services
from app.store import webhooks
from app.store.db import Connection
from tests.integration.delivery.conftest import StartCourier
from tests.integration.delivery.deliveries import became
from tests.integration.store.stage import Stage
from tests.support.receiver import Receiver


async def test_what_cannot_be_said_is_a_failure_like_others(
    stage: Stage, receiver: Receiver, start: StartCourier, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def show(connection: object, run: str) -> None:
        raise KeyError("x")

    monkeypatch.setattr(services, "show", show)
    run = await stage.submit(callback=receiver.url)
    start()
    (delivery,) = await became(stage, run, "pending", attempts=1)

    assert delivery["last_error"] == "it could not be sent: KeyError"


async def test_what_cannot_be_settled_is_named_and_delivered_again(
    stage: Stage,
    receiver: Receiver,
    start: StartCourier,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def deliver(connection: Connection, delivery: str, status: int) -> None:
        monkeypatch.undo()
        raise KeyError("x")

    run = await stage.submit(callback=receiver.url)
    monkeypatch.setattr(webhooks, "deliver", deliver)
    monkeypatch.setattr("app.delivery.webhooks.CLAIM_SECONDS", 0.5)
    start()
    (delivery,) = await became(stage, run, "delivered")

    assert delivery["attempts"] == 2
    assert any(delivery["id"] in record.getMessage() for record in caplog.records)
