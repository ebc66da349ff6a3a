import json
from datetime import datetime, timedelta, timezone

from app.http.answers import Json
from app.services.views_shapes import history, moment, moment_of_json


def test_text_that_no_encoding_allows_gets_out_as_it_came_in() -> None:
    value = {"text": "\ud800 \x00 \U0001f600 é \\u0000"}

    body = Json(value).body

    assert bytes(body).isascii()
    assert json.loads(bytes(body)) == value


def test_a_number_beyond_all_numbers_is_null() -> None:
    body = bytes(Json({"a": [1e308, json.loads("1e999")]}).body)

    assert json.loads(body, parse_constant=lambda name: name) == {"a": [1e308, None]}


def test_integers_keep_all_their_digits() -> None:
    assert bytes(Json(2**200).body) == f"{2**200}\n".encode()


def test_moments_are_in_utc_to_the_microsecond() -> None:
    east = timezone(timedelta(hours=2))

    assert moment(datetime(2030, 1, 2, 3, 4, 5, tzinfo=east)) == "2030-01-02T01:04:05.000000Z"
    assert moment_of_json("2030-01-02T03:04:05.5+02:00") == "2030-01-02T01:04:05.500000Z"
    assert moment(None) is None
    assert moment_of_json(None) is None


def test_history_tells_nothing_internal() -> None:
    assert history([{"attempt": 1, "fence": 7, "outcome": None}]) == [
        {"attempt": 1, "outcome": None}
    ]
