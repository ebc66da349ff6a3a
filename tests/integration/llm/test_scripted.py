"""The scripted model itself, over HTTP: its strictness, its memory, its hooks."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from app.llm.client import ModelAnswer, ModelFailure
from app.llm.prices import cost
from app.llm.scripted import RequestRecord, Scene, Scripted, create_app, follow
from tests.integration.llm.conftest import Connect
from tests.integration.llm.requests import ask, assistant, results, script

HEADERS = {"x-api-key": "k", "anthropic-version": "2026-10-21"}
THINKING: dict[str, Any] = {"type": "thinking", "thinking": "  é \u2028", "signature": "sig"}
HIDDEN: dict[str, Any] = {"type": "redacted_thinking", "data": "data"}
USE: dict[str, Any] = {"type": "tool_use", "id": "t1", "name": "pay", "input": {"a": 1}}


def _http(server: Scripted) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(server)
    return httpx.AsyncClient(transport=transport, base_url="http://model", headers=HEADERS)


def _body(text: str, **more: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": text}]
    return {"model": "m", "max_tokens": 10, "messages": messages, **more}


async def _lines(response: httpx.Response) -> AsyncIterator[dict[str, Any]]:
    async for line in response.aiter_lines():
        if line.startswith("data: "):
            yield json.loads(line.removeprefix("data: "))


async def test_a_refusal_has_the_envelope_of_the_api() -> None:
    async with _http(Scripted()) as http:
        response = await http.post("/v1/messages", json=_body(" "))

    error = response.json()
    assert (response.status_code, error["type"]) == (400, "error")
    assert error["error"]["type"] == "invalid_request_error"
    assert "non-whitespace" in error["error"]["message"]
    assert error["request_id"] == response.headers["request-id"]


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/v1/messages", 405), ("POST", "/v1/other", 404)]
)
async def test_what_is_not_there_is_refused_in_the_same_envelope(
    method: str, path: str, status: int
) -> None:
    async with _http(Scripted()) as http:
        response = await http.request(method, path, json={})

    assert response.status_code == status
    assert response.json()["type"] == "error"


async def test_a_plain_answer_and_a_streamed_one_say_the_same() -> None:
    text = script({"thinking": "hm", "text": "hello there, dear reader", "calls": [{"tool": "x"}]})
    async with _http(Scripted()) as http:
        plain = (await http.post("/v1/messages", json=_body(text))).json()
        streamed = await http.post("/v1/messages", json=_body(text, stream=True))
        events = [event async for event in _lines(streamed)]

    assert [event["type"] for event in events[:3]] == [
        "message_start",
        "ping",
        "content_block_start",
    ]
    assert [event["type"] for event in events[-2:]] == ["message_delta", "message_stop"]
    assert "event: content_block_delta\ndata: " in streamed.text
    assert plain["stop_reason"] == events[-2]["delta"]["stop_reason"] == "tool_use"
    assert plain["usage"] == events[-2]["usage"]
    assert plain["id"] == events[0]["message"]["id"]
    use = next(event for event in events if event.get("index") == 2)["content_block"]
    assert use == plain["content"][2]


async def test_the_same_request_gets_the_same_answer_and_another_one_other_ids() -> None:
    text = script({"calls": [{"tool": "pay"}, {"tool": "pay"}, {"tool": "pay", "id": "mine"}]})
    async with _http(Scripted()) as http:
        answers = [
            (await http.post("/v1/messages", json=_body(t))).json()
            for t in (text, text, f"{text} ")
        ]

    ids = [[block["id"] for block in answer["content"]] for answer in answers]
    assert answers[0] == answers[1]
    assert {id_ for turn in ids for id_ in turn[2:]} == {"mine"}
    assert len({id_ for turn in ids for id_ in turn}) == 5


async def test_a_script_by_model_name_gives_way_to_one_in_the_text() -> None:
    named = {"m": follow({"text": "named"})}
    async with _http(Scripted(follow({"text": "other"}), scripts=named)) as http:
        bodies = [
            _body("x"),
            {**_body("x"), "model": "n"},
            _body(script({"text": "embedded"})),
        ]
        texts = [
            (await http.post("/v1/messages", json=body)).json()["content"][0]["text"]
            for body in bodies
        ]

    assert texts == ["named", "other", "embedded"]


async def test_the_nth_request_for_one_step_gets_its_own_answer(connect: Connect) -> None:
    model = await connect(Scripted())
    busy = {"status": 429, "headers": {"retry-after": "1"}}
    text = script({"times": [busy, {"cut": "mid_text"}, {"text": "at last"}]})

    outcomes = [await model.answer(ask(text)) for _ in range(4)]
    other = await model.answer(ask(f"{text} of another run"))

    assert [getattr(outcome, "status", "answer") for outcome in outcomes] == [
        429,
        200,
        "answer",
        "answer",
    ]
    assert isinstance(other, ModelFailure)


async def test_results_are_filled_into_later_steps(connect: Connect) -> None:
    model = await connect(Scripted())
    text = script({"content": [USE], "stop_reason": "tool_use"}, {"text": "got {{last_result}}"})

    answer = await model.answer(ask(text, assistant([USE]), results([USE])))

    assert isinstance(answer, ModelAnswer)
    assert answer.content[0]["text"] == "got ok"


@pytest.mark.parametrize(
    "step",
    [{"surprise": 1}, {"cut": "anywhere"}, {"calls": []}, {"stop_reason": "end_turn"}],
)
async def test_a_step_that_says_nothing_clear_is_refused(
    connect: Connect, step: dict[str, Any]
) -> None:
    model = await connect(Scripted())

    failure = await model.answer(ask(script(step)))

    assert isinstance(failure, ModelFailure)
    assert (failure.status, "script: " in failure.detail) == (400, True)


@pytest.mark.parametrize(
    "returned",
    [
        [{**THINKING, "thinking": " é \u2028"}, HIDDEN, USE],
        [{**THINKING, "extra": 1}, HIDDEN, USE],
        [{"thinking": THINKING["thinking"], "type": "thinking", "signature": "sig"}, HIDDEN, USE],
        [{**THINKING, "signature": "sig2"}, HIDDEN, USE],
        [THINKING, {**HIDDEN, "data": "Data"}, USE],
        [THINKING, USE],
        [USE],
    ],
)
async def test_thinking_that_comes_back_changed_is_refused(
    connect: Connect, returned: list[dict[str, Any]]
) -> None:
    content = [THINKING, HIDDEN, USE]
    server = Scripted(follow({"content": content, "stop_reason": "tool_use"}))
    model = await connect(server)
    await model.answer(ask("go"))

    faithful = await model.answer(ask("go", assistant(content), results(content)))
    changed = await model.answer(ask("go", assistant(returned), results(returned)))

    assert isinstance(faithful, ModelAnswer)
    assert isinstance(changed, ModelFailure)
    assert (changed.status, changed.verdict) == (400, "fatal")
    assert [request.refused is None for request in server.requests] == [True, True, False]


async def test_only_the_apps_own_model_takes_thinking_from_before_its_start(
    connect: Connect,
) -> None:
    request = ask("go", assistant([THINKING, USE]), results([USE]))

    strict = await (await connect(Scripted())).answer(request)
    lenient = await (await connect(create_app())).answer(request)

    assert isinstance(strict, ModelFailure)
    assert isinstance(lenient, ModelAnswer)


async def test_a_repeated_id_says_nothing_about_thinking(connect: Connect) -> None:
    with_thinking = {"content": [THINKING, USE], "stop_reason": "tool_use"}
    server = Scripted(follow({"content": [USE], "stop_reason": "tool_use"}, with_thinking))
    model = await connect(server)
    first = ask("go", assistant([USE]), results([USE]))
    await model.answer(ask("go"))
    await model.answer(first)

    third = ask("go", *first.messages[1:], assistant([THINKING, USE]), results([USE]))
    assert isinstance(await model.answer(third), ModelAnswer)


async def test_a_request_is_recorded_and_held_before_its_answer(connect: Connect) -> None:
    held, release = asyncio.Event(), asyncio.Event()

    async def hold(record: RequestRecord) -> None:
        if record.k == 1:
            held.set()
            await release.wait()

    server = Scripted(follow({"text": "a"}, {"text": "b"}), on_request=hold)
    model = await connect(server)
    second = asyncio.create_task(model.answer(ask("go", assistant([USE]), results([USE]))))

    await asyncio.wait_for(held.wait(), 5)
    first = await model.answer(ask("go"))
    assert isinstance(first, ModelAnswer)
    assert not second.done()
    release.set()

    answer = await second
    assert isinstance(answer, ModelAnswer)
    assert answer.content[0]["text"] == "b"
    assert [(record.k, record.text) for record in server.requests] == [(1, "go"), (0, "go")]


async def test_only_the_last_requests_are_kept(connect: Connect) -> None:
    server = Scripted(keep=2)
    model = await connect(server)

    for text in ("a", "b", "c"):
        await model.answer(ask(text))

    assert [record.text for record in server.requests] == ["b", "c"]


async def test_usage_follows_sizes_and_can_be_set(connect: Connect) -> None:
    def speak(scene: Scene) -> dict[str, Any]:
        return (
            {"text": "x", "usage": {"output_tokens": 123}} if scene.text == "set" else {"text": "x"}
        )

    model = await connect(Scripted(speak))
    mark = [{"type": "text", "text": "s" * 400, "cache_control": {"type": "ephemeral"}}]

    small, large = await model.answer(ask("a")), await model.answer(ask("a" * 4000))
    told = await model.answer(ask("set"))
    first = await model.answer(ask("a", system=mark))
    later = await model.answer(ask("a", assistant([USE]), results([USE]), system=mark))

    assert isinstance(small, ModelAnswer)
    assert isinstance(large, ModelAnswer)
    assert isinstance(told, ModelAnswer)
    assert isinstance(first, ModelAnswer)
    assert isinstance(later, ModelAnswer)
    assert large.usage.input_tokens - small.usage.input_tokens > 900
    assert told.usage.output_tokens == 123
    assert (first.usage.cache_write_tokens > 0, first.usage.cache_read_tokens) == (True, 0)
    assert (later.usage.cache_read_tokens > 0, later.usage.cache_write_tokens) == (True, 0)


async def test_a_delay_comes_before_the_answer(connect: Connect) -> None:
    model = await connect(Scripted(), read_seconds=0.2)

    late = await model.answer(ask(script({"text": "x", "delay": 5})))

    assert isinstance(late, ModelFailure)
    assert late.type == "timeout"


async def test_the_refund_desk_is_served_by_default(connect: Connect) -> None:
    model = await connect(create_app())
    tools = [{"name": n, "input_schema": {"type": "object"}} for n in ("find_order", "refund")]

    first = await model.answer(ask("Refund order 1001", tools=tools))
    assert isinstance(first, ModelAnswer)
    found = results(first.content)
    found["content"][0]["content"] = '{"total_cents": 500}'
    second = await model.answer(
        ask("Refund order 1001", assistant(first.content), found, tools=tools)
    )

    assert isinstance(second, ModelAnswer)
    assert second.content[-1]["input"] == {"order_id": "1001", "cents": 500}
    assert cost(second.model, second.usage) == 0
