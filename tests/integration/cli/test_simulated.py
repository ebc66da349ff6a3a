"""`perdure simulate` as a reader meets it: what it says, and whom it holds."""

import asyncio
import subprocess
from collections.abc import Iterator

import httpx
import pytest

from tests.integration.cli.test_dev import COMMAND, PATIENCE_SECONDS, make_environment
from tests.integration.cli.test_start import start
from tests.support.polling import eventually
from tests.support.processes import free_port

REFUND = {"order_id": "1003", "cents": 100}


class Simulated:
    """One `perdure simulate`; `said` is its first line."""

    def __init__(self, part: str) -> None:
        self.part = part
        self.port = free_port()
        self.base = f"http://127.0.0.1:{self.port}"
        self.process = subprocess.Popen(
            [*COMMAND, "simulate", part, str(self.port)],
            env=make_environment(1),
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.said = self.process.stdout.readline()


@pytest.fixture
def simulated(part: str) -> Iterator[Simulated]:
    simulated = Simulated(part)
    with simulated.process:
        yield simulated
        simulated.process.terminate()


@pytest.mark.parametrize(("part", "name"), [("provider", "Payments"), ("model", "Model")])
def test_it_says_where_it_is_and_that_its_port_is_taken(simulated: Simulated, name: str) -> None:
    assert simulated.said == f"{name} on {simulated.base}\n"
    assert httpx.get(f"{simulated.base}/nothing", trust_env=False).is_client_error

    again = ["simulate", simulated.part]
    refused = start([*COMMAND, *again, str(simulated.port)])
    assert (refused.returncode, refused.stdout) == (1, "")
    assert f"cannot listen on 127.0.0.1, port {simulated.port}: Address" in refused.stderr
    assert f"perdure {' '.join(again)} {simulated.port + 1}" in refused.stderr
    assert "Traceback" not in refused.stderr


@pytest.mark.parametrize(("where", "booked"), [("before", []), ("after", [1])])
@pytest.mark.parametrize("part", ["provider"])
async def test_who_has_gone_is_held_no_longer(
    simulated: Simulated, where: str, booked: list[int]
) -> None:
    async with httpx.AsyncClient(
        base_url=simulated.base, trust_env=False, timeout=PATIENCE_SECONDS
    ) as http:

        async def is_let_go() -> bool:
            return not (await http.get("/held?timeout=0")).json()["held"]

        async def calls() -> list[int]:
            return [row["calls"] for row in (await http.get("/ledger")).json()["rows"]]

        await http.post("/hold", json={"where": where, "path": "/refunds"})
        killed = asyncio.create_task(_refund(http))
        assert len((await http.get("/held")).json()["held"]) == 1
        killed.cancel()
        await eventually(is_let_go, "its client is missed")

        assert await calls() == booked
        assert (await http.post("/release")).json() == {"released": 0}
        assert (await _refund(http)).is_success
        assert await calls() == [1 + sum(booked)]


async def _refund(http: httpx.AsyncClient) -> httpx.Response:
    headers = {"Authorization": "Bearer demo", "Idempotency-Key": "a"}
    return await http.post("/refunds", json=REFUND, headers=headers)
