"""A turn: begun before the model is called, stored whole after it, paid for as often as called."""

import json
from typing import Any

import pytest

from app.domain.ids import new_message_id
from app.store import messages, turns
from app.store.db import Row, rows
from tests.integration.store.stage import PRICE, USAGE, Stage


async def running(stage: Stage, **values: Any) -> tuple[str, int]:
    run = await stage.submit(**values)
    return run, await stage.take(run)


async def say(stage: Stage, run: str, text: str = "wait") -> str:
    return str((await messages.insert(stage.connection, new_message_id(), run, text))["id"])


async def read_turn(stage: Stage, run: str, number: int = 1) -> Row:
    query = "select * from perdure.turns where run = %(run)s and number = %(number)s"
    return await stage.one(query, run=run, number=number)


async def test_a_turn_is_begun_with_what_it_asks(stage: Stage) -> None:
    run, fence = await running(stage)

    assert await stage.begin(run, fence) == "call"

    turn = await read_turn(stage, run)
    assert (turn["model"], turn["prompt_hash"], turn["attempts"]) == ("claude-test", "p", 1)
    assert [each["fence"] for each in turn["history"]] == [fence]


async def test_beginning_sent_twice_is_one_attempt(stage: Stage) -> None:
    run, fence = await running(stage)
    await stage.begin(run, fence)

    assert await stage.begin(run, fence) == "call"
    assert (await read_turn(stage, run))["attempts"] == 1
    assert (await stage.run(run))["repaid_model_calls"] == 0


async def test_a_call_that_a_crash_interrupted_is_counted_as_paid_again(stage: Stage) -> None:
    run, fence = await running(stage)
    await stage.begin(run, fence)
    second = await stage.take(run, "w2")

    assert await stage.begin(run, second) == "call"
    assert await stage.answer(run, second, 1) == "ok"

    found, turn = await stage.run(run), await read_turn(stage, run)
    assert (found["model_calls"], found["repaid_model_calls"]) == (2, 1)
    assert [each["outcome"] for each in turn["history"]] == ["interrupted", "answered"]


@pytest.mark.parametrize("step", ["begin", "answer", "fail"])
async def test_a_turn_under_an_old_fence_is_refused(stage: Stage, step: str) -> None:
    run, fence = await running(stage)
    await stage.begin(run, fence)
    await stage.take(run, "w2")

    did = {
        "begin": lambda: stage.begin(run, fence),
        "answer": lambda: stage.answer(run, fence, 1, "pay"),
        "fail": lambda: stage.fail(run, fence),
    }
    assert await did[step]() == "fenced"
    found = await stage.run(run)
    assert (found["turns"], found["model_calls"], found["model_failures"]) == (0, 0, 0)


async def test_a_finished_turn_is_not_asked_again(stage: Stage) -> None:
    run, fence = await running(stage)
    await stage.turn(run, fence, 1, "pay")
    await stage.ask_cancel(run)

    assert await stage.begin(run, fence) == "answered"


async def test_an_answer_is_stored_with_its_calls_and_its_price(stage: Stage) -> None:
    run, fence = await running(stage)

    calls = await stage.turn(run, fence, 1, "pay", "look")

    found = await stage.run(run)
    assert (found["turns"], found["model_calls"]) == (1, 1)
    assert {name: found[name] for name in USAGE} == USAGE
    assert str(found["cost_usd"]) == "0.001000"
    assert [(await stage.call(call))["tool"] for call in calls] == ["pay", "look"]
    assert [(await stage.call(call))["state"] for call in calls] == ["proposed", "proposed"]
    assert (await stage.told(run))[-3:] == ["model.completed", "call.proposed", "call.proposed"]


async def test_an_answer_sent_twice_is_stored_and_paid_once(stage: Stage) -> None:
    run, fence = await running(stage)
    await stage.turn(run, fence, 1, "pay")
    before = await stage.run(run)

    assert await stage.answer(run, fence, 1, "pay") == "ok"
    assert await stage.run(run) == before


async def test_an_answer_to_a_cancelled_run_is_kept_for_the_record(stage: Stage) -> None:
    run, fence = await running(stage)
    await stage.begin(run, fence)
    await stage.ask_cancel(run)

    assert await stage.answer(run, fence, 1, "pay") == "ok"
    assert await stage.begin(run, fence, 2) == "cancel"


@pytest.mark.parametrize(
    ("limits", "reached"),
    [
        ({"turns": 1}, "limit_turns"),
        ({"tokens": 15}, "limit_tokens"),
        ({"tokens": 16}, "call"),
        ({"cost_usd": "0.001"}, "limit_cost"),
        ({"cost_usd": "0.0011"}, "call"),
        ({"seconds": 0.000001}, "limit_seconds"),
        ({}, "call"),
    ],
)
async def test_a_reached_limit_allows_no_further_turn(
    stage: Stage, limits: dict[str, Any], reached: str
) -> None:
    run, fence = await running(stage)
    await stage.turn(run, fence, 1, "pay")
    await stage.do(
        "update perdure.runs set limits = limits || %(limits)s::jsonb where id = %(run)s",
        run=run,
        limits=json.dumps(limits),
    )

    assert await stage.begin(run, fence, 2) == reached


async def test_a_passed_deadline_allows_no_turn(stage: Stage) -> None:
    run, fence = await running(stage, deadline="2020-01-01T00:00:00Z")

    assert await stage.begin(run, fence) == "deadline"


async def test_a_message_goes_out_with_one_turn_and_is_delivered_by_its_answer(
    stage: Stage,
) -> None:
    run, fence = await running(stage)
    first = await say(stage, run)
    await stage.begin(run, fence)
    late = await say(stage, run)

    await stage.answer(run, fence, 1)

    query = "select id, state, turn from perdure.messages where run = %(run)s order by place"
    assert await rows(stage.connection, query, run=run) == [
        {"id": first, "state": "delivered", "turn": 1},
        {"id": late, "state": "queued", "turn": None},
    ]


async def test_a_paused_turn_takes_no_message_along(stage: Stage) -> None:
    run, fence = await running(stage)
    message = await say(stage, run)

    await stage.begin(run, fence, take_messages=False)

    found = await stage.one("select turn from perdure.messages where id = %(id)s", id=message)
    assert found["turn"] is None


async def test_a_failed_model_call_opens_the_timer_of_the_next(stage: Stage) -> None:
    run, fence = await running(stage)
    await stage.begin(run, fence)

    assert await stage.fail(run, fence) == "ok"
    assert await stage.fail(run, fence) == "ok"  # its own earlier commit

    found = await stage.run(run)
    assert (found["model_failures"], found["repaid_model_calls"]) == (1, 1)
    assert (await stage.told(run))[-2:] == ["model.retrying", "wait.opened"]
    assert await stage.park(run, fence) == "parked"


async def test_the_next_attempt_of_a_turn_keeps_its_messages_and_takes_the_new_ones(
    stage: Stage,
) -> None:
    run, fence = await running(stage)
    await say(stage, run, "one")
    await stage.begin(run, fence)
    await stage.fail(run, fence, retry=0.0)
    await say(stage, run, "two")

    assert await stage.begin(run, fence) == "call"
    await stage.answer(run, fence, 1)

    query = "select turn from perdure.messages where run = %(run)s"
    assert await rows(stage.connection, query, run=run) == [{"turn": 1}, {"turn": 1}]
    assert (await read_turn(stage, run))["attempts"] == 2
    assert (await stage.run(run))["model_failures"] == 0


async def test_a_model_call_that_failed_for_good_opens_no_timer(stage: Stage) -> None:
    run, fence = await running(stage)
    await stage.begin(run, fence)

    await stage.fail(run, fence, retry=None)

    assert (await stage.told(run))[-1] == "model.failed"
    assert await stage.park(run, fence) == "again"


async def test_what_the_next_turn_was_told_as_unknown_is_remembered(stage: Stage) -> None:
    run, fence, call = await stage.calling()
    await stage.lose(run, fence, call)

    await stage.begin(run, fence, 2)

    assert (await stage.call(call))["told_unknown"]


async def test_content_comes_back_as_it_was_received(stage: Stage) -> None:
    run, fence = await running(stage)
    await stage.begin(run, fence)
    content: list[dict[str, Any]] = [
        {"type": "thinking", "thinking": "\ud800 \x00 é", "signature": "s=", "z": 1, "a": 1e2},
        {"type": "text", "text": "Done."},
    ]

    await turns.finish(
        stage.connection,
        run,
        fence,
        1,
        model="claude-test",
        stop_reason="end_turn",
        content=content,
        usage=USAGE,
        cost=PRICE,
        asked_for=[],
    )

    (history,) = await turns.history(stage.connection, run)
    assert json.dumps(history["turns"][0]["content"]) == json.dumps(content)
