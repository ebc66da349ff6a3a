"""JSON as text: hashed alike when equal, stored as received."""

import json
from typing import Any

import pytest

from app.domain.canonical import canonical_json, digest, encode, scrub


def test_order_of_keys_does_not_change_the_digest() -> None:
    assert digest({"a": 1, "b": [1, {"d": 2, "c": 3}]}) == digest(
        {"b": [1, {"c": 3, "d": 2}], "a": 1}
    )


def test_digest_is_sha256_in_hex() -> None:
    assert digest({}) == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"


@pytest.mark.parametrize(("one", "other"), [(1, "1"), ([], {}), (None, False), ({"a": None}, {})])
def test_different_values_have_different_digests(one: object, other: object) -> None:
    assert digest(one) != digest(other)


def test_canonical_text_is_ascii_without_white_space() -> None:
    assert canonical_json({"b": "é 😀", "a": [1, 2]}) == '{"a":[1,2],"b":"\\u00e9 \\ud83d\\ude00"}'


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_nan_and_infinity_are_refused(number: float) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        encode([number])
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical_json([number])


def test_encoding_keeps_the_order_of_keys() -> None:
    assert encode({"b": 1, "a": 2}) == '{"b":1,"a":2}'


@pytest.mark.parametrize("value", ["😀", "\\u0000", "\x00", "\ud800", {"é": [1.5, None, True]}])
def test_what_was_encoded_comes_back(value: object) -> None:
    text = encode(value)
    assert text.isascii()
    assert json.loads(text) == value


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("a\x00b", "a\ufffdb"),
        ("\ud800abc", "\ufffdabc"),
        ("abc\udc00", "abc\ufffd"),
        ("\ude00\ud83d", "\ufffd\ufffd"),
        ("\ud800\ud83d\ude00", "\ufffd😀"),
        ("a\x00\ud83d\ude00\udc00", "a\ufffd😀\ufffd"),
    ],
)
def test_nul_and_lone_surrogates_are_replaced(text: str, clean: str) -> None:
    assert scrub(text) == clean
    clean.encode()


@pytest.mark.parametrize("text", ["\\u0000", "\\ud800", "😀 é \u2028", ""])
def test_text_that_only_looks_harmful_is_left_alone(text: str) -> None:
    assert scrub(text) == text


def test_a_split_surrogate_pair_stays_one_character() -> None:
    assert scrub("\ud83d\ude00") == "😀"
    assert encode(scrub("\ud83d\ude00")) == '"\\ud83d\\ude00"'


def test_scrubbing_reaches_keys_and_every_depth() -> None:
    dirty: dict[str, Any] = {"k\x00": [{"x": ("\ud800", 1, None)}]}
    assert scrub(dirty) == {"k\ufffd": [{"x": ["\ufffd", 1, None]}]}


def test_scrubbing_leaves_the_given_value_alone() -> None:
    dirty = {"a": ["\x00"]}
    scrub(dirty)
    assert dirty == {"a": ["\x00"]}
