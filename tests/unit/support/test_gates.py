"""The gates hold what they say they hold."""

import asyncio
from collections.abc import Iterator

import httpx
import pytest
from starlette.types import Receive, Scope, Send

from tests.support.world import World

PAYMENT = {"ref": "r1", "amount": 5}


async def silent_model(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"{}"})


@pytest.fixture
def world() -> Iterator[World]:
    world = World(silent_model)
    world.start()
    yield world
    world.stop()


async def pay(world: World) -> httpx.Response:
    async with httpx.AsyncClient() as http:
        return await http.post(f"{world.url}/pay", json=PAYMENT)


async def kill(request: "asyncio.Task[httpx.Response]") -> None:
    request.cancel()
    await asyncio.wait({request})


async def test_a_request_held_before_the_effect_has_none_until_released(world: World) -> None:
    gate = world.gate("pay:before")
    request = asyncio.create_task(pay(world))
    await gate.reached()
    assert (gate.held, len(world.payments.calls), world.payments.ledger) == (1, 1, [])
    gate.open()
    assert (await request).status_code == 200
    assert len(world.payments.ledger) == 1


async def test_a_caller_that_dies_before_the_effect_has_none(world: World) -> None:
    gate = world.gate("pay:before")
    request = asyncio.create_task(pay(world))
    await gate.reached()
    await kill(request)
    await gate.freed()
    assert world.payments.ledger == []


async def test_a_caller_that_dies_after_the_effect_has_paid(world: World) -> None:
    gate = world.gate("pay:after")
    request = asyncio.create_task(pay(world))
    await gate.reached()
    await kill(request)
    await gate.freed()
    assert len(world.payments.ledger) == 1


async def test_only_the_nth_request_is_held(world: World) -> None:
    gate = world.gate("pay:before", nth=2)
    assert (await pay(world)).status_code == 200
    second = asyncio.create_task(pay(world))
    await gate.reached()
    assert (await pay(world)).status_code == 200
    assert not second.done()
    gate.open()
    await second


async def test_a_span_holds_several_at_once(world: World) -> None:
    gate = world.gate("pay:before", span=2)
    requests = [asyncio.create_task(pay(world)) for _ in range(2)]
    await gate.reached(holding=2)
    gate.open()
    assert [(await request).status_code for request in requests] == [200, 200]


async def test_two_gates_at_one_point_count_on_their_own(world: World) -> None:
    first, second = world.gate("pay:before", nth=1), world.gate("pay:before", nth=2)
    requests = [asyncio.create_task(pay(world))]
    await first.reached()
    requests.append(asyncio.create_task(pay(world)))
    await second.reached()
    first.open()
    second.open()
    await asyncio.gather(*requests)


async def test_an_open_gate_holds_nobody(world: World) -> None:
    gate = world.gate("pay:before")
    gate.open()
    assert (await pay(world)).status_code == 200


async def test_a_gate_that_nobody_reaches_says_so(world: World) -> None:
    with pytest.raises(TimeoutError, match="pay:before"):
        await world.gate("pay:before").reached(within=0.05)


async def test_a_model_request_is_held_by_its_step(world: World) -> None:
    gate = world.gate("llm:1")
    question = {"role": "user", "content": "mark-a"}
    answer = {"role": "assistant", "content": "yes"}
    async with httpx.AsyncClient(base_url=world.url) as http:
        await http.post("/v1/messages", json={"messages": [question]})
        second = asyncio.create_task(
            http.post("/v1/messages", json={"messages": [question, answer, question]})
        )
        await gate.reached()
        gate.open()
        await second
    assert world.model.steps("mark-a") == [0, 1]
    assert world.model.statuses() == [200, 200]
    assert world.model.steps("mark-b") == []
