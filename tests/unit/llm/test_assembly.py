import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from app.llm.assembly import DEEPEST, Assembly, MalformedAnswer, ProviderError, read_message
from app.llm.client import ModelAnswer, Usage

Event = dict[str, Any]

START = {
    "type": "message_start",
    "message": {
        "model": "claude-sonnet-5",
        "content": [],
        "stop_reason": None,
        "usage": {
            "input_tokens": 10,
            "output_tokens": 1,
            "cache_read_input_tokens": 7,
            "cache_creation_input_tokens": None,
        },
    },
}


def _ending(stop_reason: str = "end_turn", **usage: Any) -> list[Event]:
    delta = {"stop_reason": stop_reason, "stop_sequence": None}
    return [
        {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 5, **usage}},
        {"type": "message_stop"},
    ]


def _block(start: dict[str, Any], *deltas: dict[str, Any], index: object = 0) -> list[Event]:
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def _feed(assembly: Assembly, events: Iterable[Event]) -> list[str | None]:
    return [assembly.feed(json.dumps(event)) for event in events]


def _assemble(*blocks: list[Event], ending: list[Event] | None = None) -> ModelAnswer:
    assembly = Assembly()
    events = [START, *(event for block in blocks for event in block)]
    _feed(assembly, [*events, *(_ending() if ending is None else ending)])
    assert assembly.finished
    return assembly.answer()


def _as_text(blocks: list[dict[str, Any]]) -> str:
    """JSON text: unlike ==, it sees the order of keys and 1 against 1.0."""
    return json.dumps(blocks)


def test_known_deltas_fill_their_blocks_and_keep_the_order_of_keys() -> None:
    answer = _assemble(
        _block(
            {"signature": "", "type": "thinking", "new": [1, {"b": 1, "a": 2.0}], "thinking": ""},
            {"type": "thinking_delta", "thinking": "  odd\u00a0\t"},
            {"type": "thinking_delta", "thinking": "\u2028\\u00e9 \0\n"},
            {"type": "signature_delta", "signature": "Ab+/=="},
        ),
        _block({"data": "x" * 3000, "type": "redacted_thinking"}, index=1),
        _block(
            {"citations": [], "type": "text", "text": ""},
            {"type": "text_delta", "text": "Hello, "},
            {"type": "citations_delta", "citation": {"cited_text": "c", "url": "u"}},
            {"type": "text_delta", "text": "world"},
            index=2,
        ),
    )

    thinking = "  odd\u00a0\t\u2028\\u00e9 \0\n"
    expected: list[dict[str, Any]] = [
        {
            "signature": "Ab+/==",
            "type": "thinking",
            "new": [1, {"b": 1, "a": 2.0}],
            "thinking": thinking,
        },
        {"data": "x" * 3000, "type": "redacted_thinking"},
        {
            "citations": [{"cited_text": "c", "url": "u"}],
            "type": "text",
            "text": "Hello, world",
        },
    ]
    assert _as_text(answer.content) == _as_text(expected)


def test_an_unknown_block_stays_as_it_was() -> None:
    block: dict[str, Any] = {
        "z": 1.0,
        "type": "hologram",
        "a": {"y": None, "b": [True, 1e3, 10**25]},
    }

    assert _as_text(_assemble(_block(block)).content) == _as_text([block])


def test_an_unknown_delta_grows_texts_and_lists_and_replaces_the_rest() -> None:
    answer = _assemble(
        _block(
            {"type": "hologram", "frames": [], "caption": None},
            {"type": "frames_delta", "frames": [1], "caption": "a", "depth": 1},
            {"type": "frames_delta", "frames": [2], "caption": "b", "depth": 2},
        )
    )

    assert answer.content == [{"type": "hologram", "frames": [1, 2], "caption": "ab", "depth": 2}]


def test_tool_input_is_the_json_that_was_streamed() -> None:
    answer = _assemble(
        _block(
            {"type": "tool_use", "id": "t", "name": "pay", "input": {}},
            {"type": "input_json_delta", "partial_json": ""},
            {"type": "input_json_delta", "partial_json": '{"b": 1, "a": 2.0, "s": "\\ud83d'},
            {"type": "input_json_delta", "partial_json": '\\ude00 \\u0000"}'},
        )
    )

    assert _as_text(answer.content) == _as_text(
        [{"type": "tool_use", "id": "t", "name": "pay", "input": {"b": 1, "a": 2.0, "s": "😀 \0"}}]
    )


def test_tool_input_without_a_delta_is_what_the_start_said() -> None:
    start = {"type": "tool_use", "id": "t", "name": "now", "input": {"zone": "UTC"}}

    assert _assemble(_block(start)).content == [start]


@pytest.mark.parametrize("raw", ['{"amount": 12', '{"a": NaN}', '{"a": 1e999}', "not json"])
def test_an_input_that_is_no_json_is_marked_and_never_guessed(raw: str) -> None:
    start = {"type": "tool_use", "id": "t", "name": "pay", "input": {}}
    cut = _block(start, {"type": "input_json_delta", "partial_json": raw})

    answer = _assemble(cut, ending=_ending("max_tokens"))

    assert answer.stop_reason == "max_tokens"
    assert answer.content == [{**start, "partial_json": raw}]


def test_a_surrogate_pair_cut_by_two_deltas_becomes_one_character() -> None:
    answer = _assemble(
        _block(
            {"type": "text", "text": ""},
            {"type": "text_delta", "text": "a\ud83d"},
            {"type": "text_delta", "text": "\ude00b\ud83d"},
        )
    )

    assert answer.content == [{"type": "text", "text": "a😀b\ud83d"}]


def test_usage_of_the_delta_wins_where_it_is_present() -> None:
    ending = _ending(input_tokens=12, cache_read_input_tokens=None, cache_creation_input_tokens=3)

    assert _assemble(ending=ending).usage == Usage(12, 5, 7, 3)


@pytest.mark.parametrize("count", [True, -1, 2.5, "3", 10**30])
def test_what_is_no_count_of_tokens_says_nothing(count: object) -> None:
    assert _assemble(ending=_ending(input_tokens=count)).usage == Usage(10, 5, 7, 0)


def test_only_visible_text_is_handed_on() -> None:
    events: list[Event] = [
        START,
        {"type": "ping"},
        *_block({"type": "thinking", "thinking": ""}, {"type": "thinking_delta", "thinking": "x"}),
        *_block({"type": "text", "text": ""}, {"type": "text_delta", "text": "hi"}, index=1),
        {"type": "event_of_the_future", "x": 1},
    ]

    assert [text for text in _feed(Assembly(), events) if text] == ["hi"]


def test_blocks_come_in_the_order_of_their_index() -> None:
    first, second = {"type": "text", "text": "1"}, {"type": "text", "text": "2"}

    assert _assemble(_block(second, index=1), _block(first)).content == [first, second]


def test_an_error_event_is_the_providers_word() -> None:
    event = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}

    with pytest.raises(ProviderError, match="Overloaded") as caught:
        _feed(Assembly(), [START, event])
    assert caught.value.type == "overloaded_error"


@pytest.mark.parametrize(
    "data",
    [
        "not json",
        "[]",
        "1",
        "null",
        "{}",
        "[" * 100_000,
        '{"type": "message_start"}',
        '{"type": "message_start", "message": null}',
        '{"type": "message_start", "message": {"model": "m", "content": [1]}}',
        '{"type": "content_block_start", "index": 0}',
        '{"type": "content_block_start", "index": 0, "content_block": 5}',
        '{"type": "content_block_delta", "index": 7, "delta": {"type": "text_delta", "text": ""}}',
        '{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta"}}',
        '{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": 1}}',
        '{"type": "message_delta"}',
    ],
)
def test_an_unreadable_event_is_a_malformed_answer(data: str) -> None:
    assembly = Assembly()
    _feed(assembly, [START, *_block({"type": "text", "text": ""})])

    with pytest.raises(MalformedAnswer):
        assembly.feed(data)


def test_an_index_that_is_no_number_is_malformed() -> None:
    with pytest.raises(MalformedAnswer):
        _feed(Assembly(), [START, *_block({"type": "text", "text": ""}, index="last")])


def test_an_answer_without_a_stop_reason_is_malformed() -> None:
    assembly = Assembly()
    _feed(assembly, [START, {"type": "message_stop"}])

    with pytest.raises(MalformedAnswer):
        assembly.answer()


def test_a_plain_answer_is_kept_as_it_came() -> None:
    content = [{"x": 1.0, "type": "tool_use", "id": "t", "name": "pay", "input": {"b": 1, "a": 2}}]
    usage = {"input_tokens": 3, "output_tokens": 4}
    payload = {"type": "message", "model": "m", "stop_reason": "tool_use", "content": content}

    answer = read_message({**payload, "usage": usage})

    assert answer == ModelAnswer("m", "tool_use", content, Usage(3, 4))
    assert _as_text(answer.content) == _as_text(content)


@pytest.mark.parametrize(
    "payload",
    [None, [], {}, {"type": "message"}, {"type": "message", "model": "m", "content": []}],
)
def test_a_plain_answer_that_is_none_is_malformed(payload: object) -> None:
    with pytest.raises(MalformedAnswer):
        read_message(payload)


def test_a_plain_answer_without_a_stop_reason_is_malformed() -> None:
    with pytest.raises(MalformedAnswer):
        read_message({"type": "message", "model": "m", "content": [], "stop_reason": None})


def _nested(levels: int) -> str:
    """A tool's input, as JSON."""
    return '{"a":' * levels + "1" + "}" * levels


def _streamed(raw: str) -> ModelAnswer:
    start = {"type": "tool_use", "id": "a", "name": "pay", "input": {}}
    return _assemble(_block(start, {"type": "input_json_delta", "partial_json": raw}))


def _begun(raw: str) -> ModelAnswer:
    return _assemble(_block({"type": "unknown", "input": json.loads(raw)}))


def _plain(raw: str) -> ModelAnswer:
    block = {"type": "unknown", "input": json.loads(raw)}
    return read_message(
        {"type": "message", "model": "m", "stop_reason": "end_turn", "content": [block]}
    )


@pytest.mark.parametrize("read", [_streamed, _begun, _plain])
def test_an_answer_is_nested_as_deep_as_can_be_carried_and_no_deeper(
    read: Callable[[str], ModelAnswer],
) -> None:
    (block,) = read(_nested(DEEPEST - 1)).content
    assert json.dumps(block["input"], separators=(",", ":")) == _nested(DEEPEST - 1)
    for levels in (DEEPEST + 1, 600, 900):
        with pytest.raises(MalformedAnswer, match="levels deep"):
            read(_nested(levels))


def test_a_streamed_input_too_deep_to_be_read_is_no_broken_json() -> None:
    with pytest.raises(MalformedAnswer, match="levels deep"):
        _streamed(_nested(100_000))
