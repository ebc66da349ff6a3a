"""The pretend payment provider: what it books, refuses and holds back."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.agents.provider import create_app

REFUND = {"order_id": "1001", "cents": 500}


def connect(path: str = ":memory:", key: str | None = None) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(create_app(path, key)),
        base_url="http://provider",
        headers={"Authorization": "Bearer demo"},
    )


@pytest.fixture
async def provider() -> AsyncIterator[httpx.AsyncClient]:
    async with connect() as client:
        yield client


async def refund(provider: httpx.AsyncClient, key: str, **body: Any) -> httpx.Response:
    return await provider.post("/refunds", json=REFUND | body, headers={"Idempotency-Key": key})


async def rows(provider: httpx.AsyncClient) -> list[tuple[str, str | None, int]]:
    ledger = (await provider.get("/ledger")).json()["rows"]
    return [(row["kind"], row["key"], row["calls"]) for row in ledger]


async def test_an_answer_ends_its_line(provider: httpx.AsyncClient) -> None:
    """A prompt after `curl` stands on the next one."""
    for answer in (await provider.get("/ledger"), await provider.get("/orders/none")):
        assert answer.text.endswith("}\n")


async def test_an_order_tells_what_was_returned(provider: httpx.AsyncClient) -> None:
    await refund(provider, "a")
    assert (await provider.get("/orders/1001")).json() == {
        "id": "1001",
        "customer": "Ada Brooks",
        "total_cents": 12_900,
        "returned_cents": 500,
    }


async def test_one_key_is_one_refund(provider: httpx.AsyncClient) -> None:
    first, again = await refund(provider, "a"), await refund(provider, "a")
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["id"] == again.json()["id"]
    assert await rows(provider) == [("refund", "a", 2)]


async def test_a_full_refund_can_be_asked_for_again(provider: httpx.AsyncClient) -> None:
    for _ in range(2):
        assert (await refund(provider, "a", cents=12_900)).is_success
    assert await rows(provider) == [("refund", "a", 2)]


async def test_a_key_is_bound_to_its_payment(provider: httpx.AsyncClient) -> None:
    await refund(provider, "a")
    assert (await refund(provider, "a", cents=501)).status_code == 422
    assert await rows(provider) == [("refund", "a", 1)]


async def test_each_transfer_moves_money(provider: httpx.AsyncClient) -> None:
    for _ in range(2):
        assert (await provider.post("/transfers", json=REFUND)).status_code == 201
    assert await rows(provider) == [("transfer", None, 1), ("transfer", None, 1)]


async def test_no_more_than_the_total_is_returned(provider: httpx.AsyncClient) -> None:
    await refund(provider, "a", cents=12_000)
    refused = await refund(provider, "b", cents=901)
    assert (refused.status_code, refused.json()) == (
        422,
        {"error": "Order 1001 has 900 cents left to return."},
    )


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"\xff", 400),
        (b"[]", 422),
        (b'{"cents": 5}', 422),
        (b'{"order_id": "1001"}', 422),
        (b'{"order_id": "1001", "cents": true}', 422),
        (b'{"order_id": "1001", "cents": 0}', 422),
        (b'{"order_id": "9", "cents": 5}', 404),
    ],
)
async def test_a_wrong_payment_is_refused(
    provider: httpx.AsyncClient, body: bytes, status: int
) -> None:
    answer = await provider.post("/transfers", content=body)
    assert answer.status_code == status
    assert answer.json()["error"]
    assert await rows(provider) == []


async def test_a_refund_needs_a_key(provider: httpx.AsyncClient) -> None:
    assert (await provider.post("/refunds", json=REFUND)).status_code == 400


async def test_an_unknown_order_and_an_unknown_path(provider: httpx.AsyncClient) -> None:
    assert (await provider.get("/orders/9")).json() == {"error": "There is no order 9."}
    assert (await provider.get("/nothing")).json() == {"error": "Not Found"}


async def test_credentials_are_checked() -> None:
    async with connect(key="right") as provider:
        assert (await provider.get("/orders/1001")).status_code == 401
        right = {"Authorization": "Bearer right"}
        assert (await provider.get("/orders/1001", headers=right)).status_code == 200
        assert (await provider.post("/transfers", json=REFUND)).status_code == 401
        no = {"Authorization": ""}
        assert (await provider.get("/orders/1001", headers=no)).status_code == 401


async def test_a_ledger_in_a_file_survives(tmp_path: Path) -> None:
    path = str(tmp_path / "ledger.db")
    async with connect(path) as provider:
        await refund(provider, "a")
    async with connect(path) as provider:
        await refund(provider, "a")
        assert await rows(provider) == [("refund", "a", 2)]


@pytest.mark.parametrize(("where", "booked"), [("before", 0), ("after", 1)])
async def test_a_request_is_held_on_the_chosen_side_of_its_effect(
    provider: httpx.AsyncClient, where: str, booked: int
) -> None:
    await provider.post("/hold", json={"where": where, "path": "/refunds"})
    waiting = asyncio.create_task(provider.get("/held"))
    held = asyncio.create_task(refund(provider, "a"))
    assert (await waiting).json() == {
        "held": [{"path": "/refunds", "where": where, "key": "a"} | REFUND]
    }
    assert len(await rows(provider)) == booked
    assert (await provider.post("/release")).json() == {"released": 1}
    assert (await held).status_code == 201
    assert await rows(provider) == [("refund", "a", 1)]


async def test_only_the_next_request_on_that_path_is_held(provider: httpx.AsyncClient) -> None:
    await provider.post("/hold", json={"where": "after", "path": "/refunds"})
    assert (await provider.post("/transfers", json=REFUND)).is_success
    held = asyncio.create_task(refund(provider, "a"))
    await provider.get("/held")
    assert (await refund(provider, "a")).status_code == 200
    await provider.post("/release")
    await held
    assert ("refund", "a", 2) in await rows(provider)


async def test_release_also_disarms(provider: httpx.AsyncClient) -> None:
    await provider.post("/hold", json={"where": "before", "path": "/refunds"})
    assert (await provider.post("/release")).json() == {"released": 0}
    assert (await refund(provider, "a")).status_code == 201


async def held(provider: httpx.AsyncClient, seconds: str) -> Any:  # noqa: ANN401 - JSON
    return (await provider.get("/held", params={"timeout": seconds})).json()


async def test_a_wait_in_vain_lifts_the_hold_and_says_why(provider: httpx.AsyncClient) -> None:
    await provider.post("/hold", json={"where": "after", "path": "/refunds"})
    reason = "Nothing came in 0.01 s; was the order refunded already? The hold is lifted."
    assert await held(provider, "0.01") == {"held": [], "reason": reason}
    async with asyncio.timeout(10):
        assert (await refund(provider, "a")).status_code == 201


async def test_without_a_hold_nothing_is_waited_for(provider: httpx.AsyncClient) -> None:
    async with asyncio.timeout(10):
        assert (await held(provider, "30"))["reason"] == "No hold is set: POST /hold first."


async def test_a_look_lifts_no_hold(provider: httpx.AsyncClient) -> None:
    await provider.post("/hold", json={"where": "after", "path": "/refunds"})
    assert await held(provider, "0") == {"held": []}
    stopped = asyncio.create_task(refund(provider, "a"))
    (seen,) = (await held(provider, "10"))["held"]
    assert seen["key"] == "a"
    await provider.post("/release")
    await stopped


async def test_each_thousand_has_the_same_orders_afresh(provider: httpx.AsyncClient) -> None:
    await refund(provider, "a", cents=12_900)
    order = (await provider.get("/orders/2001")).json()
    assert order == {
        "id": "2001",
        "customer": "Ada Brooks",
        "total_cents": 12_900,
        "returned_cents": 0,
    }
    assert (await provider.get("/orders/12005")).json()["total_cents"] == 240_000


@pytest.mark.parametrize("order", ["1006", "1000", "0001", "001", "2011", "x001", "2001 "])
async def test_no_other_order_is_there(provider: httpx.AsyncClient, order: str) -> None:
    assert (await provider.get(f"/orders/{order}")).status_code == 404


async def test_a_hold_must_name_a_side(provider: httpx.AsyncClient) -> None:
    assert (await provider.post("/hold", json={"path": "/refunds"})).status_code == 422
