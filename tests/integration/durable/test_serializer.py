"""The journal's format: JSON and nothing else."""

import base64
import pickle
from typing import Any

import pytest
from dbos._serialization import (
    DBOSDefaultSerializer,
    DefaultSerializer,
    deserialize_args,
    deserialize_exception,
    deserialize_value,
)

from app.durable.serializer import JournalSerializer, refuse_pickle

SERIALIZER = JournalSerializer()
RAN: list[str] = []


def explode(text: str) -> None:
    RAN.append(text)


class Bomb:
    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return explode, ("the pickle ran",)


def pickled() -> str:
    return base64.b64encode(pickle.dumps(Bomb())).decode()


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> None:
    # Set first, so that the original comes back when the test is over.
    monkeypatch.setattr(DefaultSerializer, "deserialize", DefaultSerializer.deserialize)
    RAN.clear()
    refuse_pickle()


@pytest.mark.parametrize("read", [deserialize_value, deserialize_args, deserialize_exception])
def test_a_row_that_says_it_is_pickled_is_refused_unread(refusing: None, read: Any) -> None:  # noqa: ANN401
    with pytest.raises(ValueError, match="pickled"):
        read(pickled(), "py_pickle", SERIALIZER)
    assert RAN == []


def test_the_default_serializer_is_refused_whoever_made_it(refusing: None) -> None:
    for serializer in (DBOSDefaultSerializer, DefaultSerializer()):
        with pytest.raises(ValueError, match="pickled"):
            serializer.deserialize(pickled())
    assert RAN == []


def test_without_the_refusal_the_pickle_would_have_run() -> None:
    RAN.clear()
    deserialize_value(pickled(), "py_pickle", SERIALIZER)

    assert RAN == ["the pickle ran"]


@pytest.mark.parametrize(
    "value",
    [
        {"turn": 1, "calls": ["todo"], "failure": None},
        {"args": ["run_1", 2], "kwargs": {}},
        {"text": "NUL \x00, half \ud800, 😀"},
        {"error": "x", "detail": "y", "more": 1},
        [],
        None,
    ],
)
def test_what_is_json_comes_back_as_it_was(value: object) -> None:
    text = SERIALIZER.serialize(value)

    assert text.isascii()
    assert "\x00" not in text
    assert SERIALIZER.deserialize(text) == value


@pytest.mark.parametrize("value", [float("nan"), object(), {1, 2}, b"bytes"])
def test_what_is_not_json_is_refused_before_it_is_written(value: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        SERIALIZER.serialize(value)


def test_an_error_comes_back_as_its_name_and_text() -> None:
    original = KeyError("half \ud800")

    text = SERIALIZER.serialize(original)
    error = deserialize_exception(text, SERIALIZER.name(), SERIALIZER)

    assert isinstance(error, RuntimeError)
    assert str(error) == f"KeyError: {original}"


def test_an_error_that_takes_two_arguments_survives() -> None:
    class Odd(Exception):
        def __init__(self, code: int, why: str) -> None:
            super().__init__(f"{code}: {why}")

    error = SERIALIZER.deserialize(SERIALIZER.serialize(Odd(7, "no")))

    assert str(error) == "Odd: 7: no"


def test_rows_of_another_format_are_not_read() -> None:
    with pytest.raises(TypeError, match="not available"):
        deserialize_value("{}", "some_json", SERIALIZER)
