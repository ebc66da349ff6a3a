"""The built-in desk against the pretend provider, over HTTP."""

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import uvicorn

from app import ToolError
from app.agents import refund_desk
from app.agents.provider import create_app
from app.tools.declare import Tool
from app.tools.errors import InvalidArguments
from tests.unit.tools.contexts import make_context


@pytest.fixture
async def url(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[str]:
    """A provider on a free port, named by PAYMENTS_URL."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(create_app(key="s3cr3t-key"), log_level="warning"))
    serving = asyncio.create_task(server.serve([listening]))
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    monkeypatch.setenv("PAYMENTS_URL", url)
    monkeypatch.setenv("PAYMENTS_KEY", "s3cr3t-key")
    yield url
    server.should_exit = True
    await serving
    listening.close()


def tool_named(name: str) -> Tool:
    tool = refund_desk.tool(name)
    assert tool is not None
    return tool


async def call(name: str, key: str = "run_1/1/0", **arguments: Any) -> Any:  # noqa: ANN401
    tool = tool_named(name)
    ctx = make_context(idempotency_key=key)
    return tool.encode_result(await tool.invoke(ctx, tool.parse(arguments)))


async def ledger(url: str) -> list[tuple[str, str | None, int]]:
    async with httpx.AsyncClient(base_url=url, trust_env=False) as http:
        rows = (await http.get("/ledger")).json()["rows"]
    return [(row["kind"], row["key"], row["calls"]) for row in rows]


def test_each_tool_makes_another_promise() -> None:
    assert {tool.name: tool.replay for tool in refund_desk.tools} == {
        "find_order": "read_only",
        "refund": "idempotent",
        "wire_transfer": "at_most_once",
    }


@pytest.mark.parametrize("name", ["refund", "wire_transfer"])
@pytest.mark.parametrize(("cents", "asked"), [(100_000, False), (100_001, True)])
async def test_a_person_is_asked_about_a_large_amount(name: str, cents: int, asked: bool) -> None:
    args = {"order_id": "1005", "cents": cents}
    assert await refund_desk.needs_approval(tool_named(name), make_context(), args) is asked


@pytest.mark.parametrize("order", ["1001", "1002", "1003", "1004", "1005"])
@pytest.mark.parametrize("name", ["refund", "wire_transfer"])
async def test_only_order_1005_is_so_large(url: str, name: str, order: str) -> None:
    total = (await call("find_order", order_id=order))["total_cents"]
    args = {"order_id": order, "cents": total}
    asked = await refund_desk.needs_approval(tool_named(name), make_context(), args)
    assert asked is (order == "1005")


@pytest.mark.parametrize("name", ["refund", "wire_transfer"])
async def test_the_order_as_it_stands_is_the_evidence(url: str, name: str) -> None:
    args = {"order_id": "1005", "cents": 200_000}
    shown = await tool_named(name).read_precondition(make_context(), args)
    assert shown == await call("find_order", order_id="1005")
    await call("refund", order_id="1005", cents=100)
    assert await tool_named(name).read_precondition(make_context(), args) != shown


async def test_an_order_is_found(url: str) -> None:
    assert (await call("find_order", order_id="1002"))["total_cents"] == 4550


async def test_the_same_call_refunds_once(url: str) -> None:
    for _ in range(2):
        await call("refund", order_id="1001", cents=100)
    await call("refund", key="run_1/2/0", order_id="1001", cents=100)
    assert await ledger(url) == [("refund", "run_1/1/0", 2), ("refund", "run_1/2/0", 1)]


async def test_a_transfer_moves_money_each_time(url: str) -> None:
    for _ in range(2):
        await call("wire_transfer", order_id="1001", cents=100)
    assert await ledger(url) == [("transfer", None, 1), ("transfer", None, 1)]


@pytest.mark.parametrize("name", ["refund", "wire_transfer"])
async def test_a_refusal_is_for_the_model(url: str, name: str) -> None:
    with pytest.raises(ToolError, match="Order 1004 has 2000 cents left"):
        await call(name, order_id="1004", cents=2001)
    with pytest.raises(ToolError, match="There is no order 9"):
        await call("find_order", order_id="9")


async def test_a_provider_that_is_away_is_no_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        monkeypatch.setenv("PAYMENTS_URL", f"http://127.0.0.1:{free.getsockname()[1]}")
    with pytest.raises(httpx.ConnectError):
        await call("refund", order_id="1001", cents=100)


async def test_a_wrong_credential_is_told_without_showing_it(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAYMENTS_KEY", "wrong-key")
    with pytest.raises(ToolError, match="This credential is not known") as refused:
        await call("find_order", order_id="1001")
    assert "wrong-key" not in str(refused.value)


@pytest.mark.parametrize("order_id", ["../ledger", "", "1" * 41])
def test_an_order_id_cannot_lead_elsewhere(order_id: str) -> None:
    tool = tool_named("find_order")
    with pytest.raises(InvalidArguments):
        tool.parse({"order_id": order_id})
