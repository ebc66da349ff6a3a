"""What a page shows of a value costs no more than what it shows."""

from collections.abc import Iterator
from math import inf

import pytest

from app.http.console.rendering import MOST_SHOWN, in_brief, is_long, on_one_line, shown_json


class Endless(list[str]):
    def __iter__(self) -> Iterator[str]:
        while True:
            yield "x" * 100


def test_of_a_value_that_is_cut_only_the_beginning_is_written() -> None:
    value = {"rows": Endless(["x"])}
    assert is_long(value)
    assert MOST_SHOWN < len(shown_json(value, entire=False)) < MOST_SHOWN + 200
    assert in_brief(value).startswith('{"rows": ["xxx')


@pytest.mark.parametrize("value", [{"n": inf}, {"n": inf, "rows": ["x" * 100] * 100}])
def test_a_number_that_no_json_can_carry_is_null(value: object) -> None:
    assert on_one_line(value).startswith('{"n": null')
    assert '"n": null' in shown_json(value)
    assert in_brief(value).startswith('{"n": null')


def test_what_fits_is_shown_in_lines_and_what_does_not_on_one() -> None:
    assert shown_json({"a": ["é\u202e"]}) == '{\n  "a": [\n    "é\\u202e"\n  ]\n}'
    assert shown_json(["x" * MOST_SHOWN, "y"]) == f'["{"x" * MOST_SHOWN}", "y"]'
