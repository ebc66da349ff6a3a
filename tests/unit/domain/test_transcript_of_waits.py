"""What the model reads of questions that expired, and of messages with more than text."""

import copy
from typing import Any

import pytest

from app.domain.transcript import Block, ToldCall, ToldRun, ToldTurn, conversation, told

IMAGE: Block = {"type": "image", "source": {"type": "base64", "data": "aGk="}}
LOOK: Block = {"type": "text", "text": "Look."}

EXPIRED = [
    ("input", "nobody answered"),
    ("external", "no result"),
    ("approval", "not run"),
    (None, "not run"),  # from before the kind was recorded
]


@pytest.mark.parametrize(("kind", "words"), EXPIRED)
def test_what_has_expired_says_what_did_not_come(kind: str | None, words: str) -> None:
    result = {"error": "expired"} if kind is None else {"error": "expired", "detail": kind}

    said, is_error = told(ToldCall("toolu_1", "expired", result))

    assert "expired" in said
    assert words in said
    assert is_error


@pytest.mark.parametrize("kind", ["input", "external"])
def test_a_call_that_ran_elsewhere_is_not_told_as_not_run(kind: str) -> None:
    """The client may have run it; only its result did not come."""
    assert "not run" not in told(ToldCall("t", "expired", {"error": "expired", "detail": kind}))[0]


@pytest.mark.parametrize(
    ("result", "said"),
    [
        ("blue", "blue"),
        ({"woken_at": "2030-01-31T12:00:00Z"}, '{"woken_at":"2030-01-31T12:00:00Z"}'),
        ({"run": "run_1", "text": "Done."}, '{"run":"run_1","text":"Done."}'),
    ],
)
def test_what_came_of_a_wait_is_told_as_any_result(result: object, said: str) -> None:
    assert told(ToldCall("toolu_1", "succeeded", result)) == (said, False)


def test_the_end_of_a_child_is_told_in_its_own_words() -> None:
    detail = "Run run_1 of agent desk ended as failed (limit_turns)."
    result = {"error": "child_failed", "run": "run_1", "detail": detail}

    assert told(ToldCall("toolu_1", "failed", result)) == (detail, True)


def message(turn: int | None, text: str, content: object = None) -> dict[str, Any]:
    return {"turn": turn, "text": text, "content": content}


def read(*said: dict[str, Any], turns: object = None) -> ToldRun:
    return ToldRun.read(
        {"input": "hello", "turns": turns, "messages": list(said) or None, "cancelled": False}
    )


def test_blocks_of_a_message_are_heard_whole_and_in_order() -> None:
    run = read(message(1, "one"), message(1, "Look.", [LOOK, IMAGE]), message(1, "two"))

    (first,) = conversation([run])

    texts = [{"type": "text", "text": said} for said in ("hello", "one", "two")]
    assert first["content"] == [texts[0], texts[1], LOOK, IMAGE, texts[2]]


def test_a_message_without_blocks_is_its_text() -> None:
    assert read(message(2, "well")).messages == {2: ["well"]}
    assert read(message(2, "", [IMAGE])).messages == {2: [[IMAGE]]}


def test_messages_stand_at_the_turn_that_they_went_out_with() -> None:
    answered = {"number": 1, "content": [LOOK], "stop_reason": "end_turn", "calls": []}
    run = read(message(2, "Look.", [LOOK, IMAGE]), turns=[answered])

    assert [each["content"] for each in conversation([run])] == [
        [{"type": "text", "text": "hello"}],
        [LOOK],
        [LOOK, IMAGE],
    ]


def test_telling_leaves_the_blocks_of_a_message_as_they_are_stored() -> None:
    stored = [copy.deepcopy(LOOK), copy.deepcopy(IMAGE)]
    run = ToldRun("hello", (ToldTurn(1, [LOOK], "end_turn"),), {1: [stored], 2: [stored, "more"]})

    conversation([run])
    conversation([run])

    assert stored == [LOOK, IMAGE]
