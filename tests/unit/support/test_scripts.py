"""What the builders write is what the scripted model follows."""

from collections.abc import Iterator

import httpx
import pytest

from app.llm.scripted import Scripted
from tests.support.scripts import by_attempt, give, refuse, say, script, together, use, with_usage
from tests.support.world import World

TOOL = {"name": "count", "input_schema": {"type": "object"}}
HEADERS = {"x-api-key": "test", "anthropic-version": "2023-06-01"}


@pytest.fixture
def world() -> Iterator[World]:
    world = World(Scripted())
    world.start()
    yield world
    world.stop()


async def ask(world: World, text: str) -> httpx.Response:
    body = {
        "model": "m",
        "max_tokens": 100,
        "tools": [TOOL],
        "messages": [{"role": "user", "content": text}],
    }
    async with httpx.AsyncClient() as http:
        return await http.post(f"{world.url}/v1/messages", json=body, headers=HEADERS)


async def test_an_answer_asks_for_calls_in_order(world: World) -> None:
    step = together(use("count", name="a"), use("count", name="b"))
    answer = (await ask(world, script(step, say("done"), preface="please: "))).json()
    assert [block["input"] for block in answer["content"]] == [{"name": "a"}, {"name": "b"}]
    assert answer["stop_reason"] == "tool_use"


async def test_a_task_for_a_child_holds_a_script_of_its_own(world: World) -> None:
    (task,) = (await ask(world, script(give(say("below"), preface="x ")))).json()["content"]
    assert task["input"] == {"agent": "desk", "input": script(say("below"), preface="x ")}
    (text,) = (await ask(world, task["input"]["input"])).json()["content"]
    assert text["text"] == "below"


async def test_an_answer_may_have_its_price(world: World) -> None:
    usage = (await ask(world, script(with_usage(say("dear"), input_tokens=7)))).json()["usage"]
    assert usage["input_tokens"] == 7


async def test_a_step_may_differ_by_attempt(world: World) -> None:
    text = script(by_attempt(refuse(429, retry_after=1), say("done")))
    first, second = await ask(world, text), await ask(world, text)
    assert (first.status_code, first.headers["retry-after"]) == (429, "1")
    assert second.json()["content"] == [{"type": "text", "text": "done"}]
    assert world.model.statuses() == [429, 200]


async def test_a_refused_request_is_seen(world: World) -> None:
    await ask(world, " ")
    assert world.model.statuses() == [400]


async def test_a_transcript_is_told_from_the_tools_beside_it(world: World) -> None:
    await ask(world, "hello")
    assert len(world.model.about("hello")) == 1
    assert world.model.about("count") == []
    assert world.model.requests[0].texts == ["hello"]
