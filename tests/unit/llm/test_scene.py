import json
from typing import Any

import pytest

from app.llm.scripted.refusal import Refused
from app.llm.scripted.scene import Call, read_scene

SCRIPT = json.dumps({"script": [{"text": "one"}, {"text": "two"}]})
USE = {"type": "tool_use", "id": "t", "name": "pay", "input": {"a": 1}}
RESULT = {"type": "tool_result", "tool_use_id": "t", "content": "paid"}


def _user(*content: Any) -> dict[str, Any]:
    blocks = [{"type": "text", "text": c} if isinstance(c, str) else c for c in content]
    return {"role": "user", "content": blocks}


def _assistant(*content: Any) -> dict[str, Any]:
    return {**_user(*content), "role": "assistant"}


def _body(*messages: dict[str, Any]) -> dict[str, Any]:
    return {"model": "m", "messages": list(messages)}


def test_the_step_is_the_number_of_answers_since_the_last_plain_text() -> None:
    first = _user("one"), _assistant(USE), _user(RESULT), _assistant("done")

    assert read_scene(_body(*first[:1])).k == 0
    assert read_scene(_body(*first[:3])).k == 1
    scene = read_scene(_body(*first, {"role": "user", "content": "two"}, _assistant("x")))
    assert (scene.k, scene.text) == (1, "two")


@pytest.mark.parametrize(
    "text",
    [
        SCRIPT,
        f"Please:\n```json\n{SCRIPT}\n```\nthank you",
        'first {"script": [{"text": "old"}]} then ' + SCRIPT,
    ],
)
def test_a_script_in_the_text_is_found_the_last_one_if_several(text: str) -> None:
    assert read_scene(_body(_user(text))).steps == [{"text": "one"}, {"text": "two"}]


def test_a_script_inside_a_scripts_arguments_is_no_script_of_its_own() -> None:
    inner = {"calls": [{"tool": "spawn", "args": {"input": {"script": [{"text": "child"}]}}}]}

    scene = read_scene(_body(_user(json.dumps({"script": [inner]}))))

    assert scene.steps == [inner]


@pytest.mark.parametrize("text", ['{"script": [', '{"script": 1}', '{"script": [1]}'])
def test_a_broken_script_is_refused(text: str) -> None:
    with pytest.raises(Refused, match="script"):
        read_scene(_body(_user(text)))


def test_a_script_goes_on_over_a_message_in_mid_run() -> None:
    scene = read_scene(_body(_user(SCRIPT), _assistant(USE), _user(RESULT, "hurry"), _user("up")))

    assert (scene.k, scene.steps) == (1, [{"text": "one"}, {"text": "two"}])


def test_a_script_that_is_over_leaves_later_texts_alone() -> None:
    over = _user(SCRIPT), _assistant("one"), _user("x"), _assistant("two")

    scene = read_scene(_body(*over, _user("new")))

    assert (scene.k, scene.text, scene.steps) == (0, "new", None)


def test_joined_answers_count_as_several_where_the_script_paused() -> None:
    paused = {"content": [USE, USE], "stop_reason": "pause_turn"}
    steps = [paused, {"text": "a", "stop_reason": "pause_turn"}, {"calls": []}]
    text = json.dumps({"script": steps})
    joined = [USE, USE], [USE, USE, "a"], [USE, USE, "a", USE]

    ks = [read_scene(_body(_user(text), _assistant(*blocks))).k for blocks in joined]

    assert ks == [1, 2, 3]


def test_calls_are_matched_with_their_results_turn_by_turn_as_ids_repeat() -> None:
    failed = {**RESULT, "content": [{"type": "text", "text": "no"}], "is_error": True}

    scene = read_scene(
        _body(_user("x"), _assistant(USE), _user(RESULT), _assistant(USE), _user(failed))
    )

    assert scene.calls == (Call("pay", {"a": 1}, "paid", False), Call("pay", {"a": 1}, "no", True))
    assert scene.last_result == "no"
