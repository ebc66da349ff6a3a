"""The conversation as the model gets it: every `tool_use` paired with one result, in order."""

import copy
import json
from typing import Any

import pytest

from app.domain.transcript import (
    CACHE,
    CANCELLED,
    NOT_RUN,
    UNKNOWN,
    Block,
    ToldCall,
    ToldRun,
    ToldTurn,
    cached,
    conversation,
    told,
)

HELLO = {"type": "text", "text": "hello"}
THOUGHT = {
    "type": "thinking",
    "thinking": "Hm\u2028.",
    "signature": "c2ln+/==",
    "new": {"b": 1, "a": 2},
}
REDACTED = {"type": "redacted_thinking", "data": "EmwKAhgBIgy3va3p"}


def text(said: str) -> Block:
    return {"type": "text", "text": said}


def use(provider_id: str, tool: str = "pay") -> Block:
    return {"type": "tool_use", "id": provider_id, "name": tool, "input": {}}


def result(provider_id: str, content: str, **extra: Any) -> Block:
    return {"type": "tool_result", "tool_use_id": provider_id, "content": content, **extra}


def done(provider_id: str, value: object = "ok") -> ToldCall:
    return ToldCall(provider_id, "succeeded", value)


def calling(number: int, *calls: ToldCall) -> ToldTurn:
    content = [use(call.provider_id) for call in calls]
    return ToldTurn(number, content, "tool_use", calls)


def saying(number: int, *content: Block, stop_reason: str = "end_turn") -> ToldTurn:
    return ToldTurn(number, list(content), stop_reason)


def spoken(*runs: ToldRun) -> list[tuple[str, list[Block]]]:
    return [(message["role"], message["content"]) for message in conversation(list(runs))]


@pytest.mark.parametrize(
    ("state", "value", "words", "is_error"),
    [
        ("succeeded", {"id": 7}, '{"id":7}', False),
        ("succeeded", "plain", "plain", False),
        ("succeeded", "", '""', False),
        ("succeeded", " \n", '" \\n"', False),
        ("succeeded", None, "null", False),
        ("succeeded", {"error": "result_too_large", "bytes": 9}, "must not be repeated", False),
        ("succeeded", {"error": "result_unencodable"}, "must not be repeated", False),
        ("failed", {"error": "told", "detail": "No such order."}, "No such order.", True),
        ("failed", {"error": "did_not_happen"}, "failed", True),
        ("failed", None, "failed", True),
        ("failed", {"error": "external", "detail": " "}, "failed", True),
        ("failed", {"error": "external", "detail": 0}, "0", True),
        ("failed", {"error": "external", "detail": {"ok": False}}, '{"ok":false}', True),
        ("denied", {"error": "denied", "detail": "Too much."}, "denied", True),
        ("denied", {"error": "denied", "detail": "Too much."}, "Too much.", True),
        ("denied", {"error": "denied", "detail": None}, "denied", True),
        ("expired", {"error": "expired"}, "expired", True),
        ("cancelled", None, "cancelled", True),
        ("outcome_unknown", {"error": "outcome_unknown"}, "unknown", True),
        ("started", None, "unknown", True),
        ("proposed", None, "not run", True),
        ("waiting", None, "not run", True),
        ("ready", None, "not run", True),
    ],
)
def test_every_state_is_told_in_its_word(
    state: str, value: object, words: str, is_error: bool
) -> None:
    said, error = told(ToldCall("toolu_1", state, value))

    assert words in said
    assert error is is_error


@pytest.mark.parametrize("state", ["denied", "expired", "proposed", "waiting", "ready"])
def test_what_was_not_run_is_told_as_not_run(state: str) -> None:
    assert "not run" in told(ToldCall("toolu_1", state, None))[0]


@pytest.mark.parametrize("state", ["outcome_unknown", "started"])
def test_what_may_have_happened_is_never_told_as_not_run(state: str) -> None:
    assert told(ToldCall("toolu_1", state, None)) == (UNKNOWN, True)
    assert NOT_RUN not in UNKNOWN


@pytest.mark.parametrize("state", ["succeeded", "failed", "outcome_unknown"])
def test_what_was_told_as_unknown_stays_so_when_it_is_settled_later(state: str) -> None:
    assert told(ToldCall("toolu_1", state, {"id": 7}, told_unknown=True)) == (UNKNOWN, True)


def test_a_turn_is_followed_by_the_results_of_its_calls_in_order() -> None:
    run = ToldRun("hello", (calling(1, done("b", 1), done("a", 2)), saying(2, text("Done."))))

    assert spoken(run) == [
        ("user", [HELLO]),
        ("assistant", [use("b"), use("a")]),
        ("user", [result("b", "1"), result("a", "2")]),
        ("assistant", [text("Done.")]),
    ]


def test_ids_that_repeat_are_paired_by_place() -> None:
    first = calling(1, done("same", "one"), done("same", "two"))
    second = calling(2, ToldCall("same", "failed", {"detail": "three"}))

    told_runs = spoken(ToldRun("hello", (first, second)))

    assert [content for role, content in told_runs if role == "user"][1:] == [
        [result("same", "one"), result("same", "two")],
        [result("same", "three", is_error=True)],
    ]


def test_messages_stand_where_the_model_met_them() -> None:
    run = ToldRun(
        "hello",
        (calling(1, done("a")), saying(2, text("Done."))),
        messages={1: ["at once"], 2: ["and", "more"], 3: ["one thing yet"]},
    )

    assert spoken(run) == [
        ("user", [HELLO, text("at once")]),
        ("assistant", [use("a")]),
        ("user", [result("a", "ok"), text("and"), text("more")]),
        ("assistant", [text("Done.")]),
        ("user", [text("one thing yet")]),
    ]


def test_results_come_before_anything_else_that_is_said() -> None:
    run = ToldRun("hello", (calling(1, done("a")),), messages={2: ["wait"]})

    assert [block["type"] for block in spoken(run)[-1][1]] == ["tool_result", "text"]


def test_a_session_is_one_conversation_over_its_runs() -> None:
    runs = [
        ToldRun("hello", (saying(1, text("Hi.")),)),
        ToldRun([text("again"), {"type": "image", "source": {}}], (calling(1, done("a")),)),
    ]

    assert spoken(*runs) == [
        ("user", [HELLO]),
        ("assistant", [text("Hi.")]),
        ("user", [text("again"), {"type": "image", "source": {}}]),
        ("assistant", [use("a")]),
        ("user", [result("a", "ok")]),
    ]


def test_a_run_that_was_stopped_before_any_answer_joins_the_next_one() -> None:
    assert spoken(ToldRun("hello"), ToldRun("hello?")) == [("user", [HELLO, text("hello?")])]


def test_calls_that_a_cancel_ended_keep_their_result() -> None:
    stopped = calling(1, done("a"), ToldCall("b", "cancelled", None))

    roles = spoken(ToldRun("hello", (stopped,)), ToldRun("go on"))

    assert [role for role, _ in roles] == ["user", "assistant", "user"]
    assert [block.get("tool_use_id") for block in roles[-1][1]] == ["a", "b", None]


def test_a_request_that_was_cancelled_is_told_as_such() -> None:
    stopped = ToldRun("hello", (calling(1, ToldCall("a", "cancelled", None)),), cancelled=True)

    assert spoken(stopped, ToldRun("again"))[-1][1][1:] == [text(CANCELLED), text("again")]


def test_a_request_that_was_cancelled_unanswered_is_not_told_at_all() -> None:
    stopped = ToldRun("hello", messages={1: ["and"]}, cancelled=True)

    assert spoken(stopped, ToldRun("again")) == [("user", [text("again")])]


@pytest.mark.parametrize("stop_reason", ["max_tokens", "refusal", "model_context_window_exceeded"])
def test_tools_of_an_answer_that_was_cut_off_are_left_out(stop_reason: str) -> None:
    cut = saying(1, text("I will"), use("a"), stop_reason=stop_reason)

    assert spoken(ToldRun("hello", (cut,)), ToldRun("go on")) == [
        ("user", [HELLO]),
        ("assistant", [text("I will")]),
        ("user", [text("go on")]),
    ]


def test_an_answer_that_only_called_a_cut_off_tool_is_left_out() -> None:
    cut = saying(1, use("a"), stop_reason="max_tokens")

    assert spoken(ToldRun("hello", (cut,)), ToldRun("go on")) == [("user", [HELLO, text("go on")])]


def test_a_paused_answer_goes_on_in_the_same_message() -> None:
    search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    paused = saying(1, search, stop_reason="pause_turn")

    assert spoken(ToldRun("hello", (paused, saying(2, text("Found it."))))) == [
        ("user", [HELLO]),
        ("assistant", [search, text("Found it.")]),
    ]


def test_a_paused_answer_goes_back_whole_and_last() -> None:
    paused = saying(1, THOUGHT, use("a"), stop_reason="pause_turn")

    assert spoken(ToldRun("hello", (paused,)))[-1] == ("assistant", [THOUGHT, use("a")])


@pytest.mark.parametrize("blank", ["", " ", "\n\n\t", "\u00a0", None])
@pytest.mark.parametrize("extra", [{}, {"citations": None}])
def test_blank_text_of_the_model_is_left_out(blank: str | None, extra: dict[str, Any]) -> None:
    turn = ToldTurn(
        1, [{"type": "text", "text": blank, **extra}, use("a")], "tool_use", (done("a"),)
    )

    assert spoken(ToldRun("hello", (turn,)))[1] == ("assistant", [use("a")])


def test_an_answer_of_blank_text_alone_is_left_out() -> None:
    blank = saying(1, text("\n\n"))

    assert spoken(ToldRun("hello", (blank,)), ToldRun("again")) == [
        ("user", [HELLO, text("again")])
    ]


@pytest.mark.parametrize("thinking", [THOUGHT, REDACTED])
@pytest.mark.parametrize("after", [[], [text(" ")], [use("a")]])
def test_thinking_that_nothing_follows_is_left_out(thinking: Block, after: list[Block]) -> None:
    """The API refuses an answer that ends in thinking, and the session would be stuck."""
    cut = saying(1, text("So"), thinking, *after, stop_reason="max_tokens")

    assert spoken(ToldRun("hello", (cut,)), ToldRun("go on"))[1] == ("assistant", [text("So")])


def test_thinking_and_unknown_blocks_survive_byte_for_byte() -> None:
    unknown = {"type": "hologram", "z": 1, "a": "\ud800", "text": " "}
    turn = ToldTurn(1, [THOUGHT, REDACTED, unknown, use("a")], "tool_use", (done("a"),))
    before = json.dumps(turn.content)

    assert json.dumps(spoken(ToldRun("hello", (turn,)))[1][1]) == before


def test_only_the_last_block_that_is_ours_is_marked_for_the_cache() -> None:
    messages = conversation([ToldRun("hello", (calling(1, done("a"), done("b")),))])

    marked = cached(messages)

    assert marked[:-1] == messages[:-1]
    assert marked[-1]["content"] == [
        result("a", "ok"),
        result("b", "ok", cache_control=CACHE),
    ]


def test_what_the_model_said_is_never_marked() -> None:
    paused = ToldRun("hello", (saying(1, THOUGHT, stop_reason="pause_turn"),))

    assert cached(conversation([paused])) == conversation([paused])
    assert cached([]) == []


def test_telling_changes_nothing_of_what_is_stored() -> None:
    runs = [
        ToldRun([text("hello")], (saying(1, text("Hi.")), saying(2, text("Yes?"))), {2: ["well"]}),
        ToldRun([text("again")], (calling(1, done("a")),)),
    ]
    before = copy.deepcopy(runs)

    first = cached(conversation(runs))

    assert runs == before
    assert cached(conversation(runs)) == first
