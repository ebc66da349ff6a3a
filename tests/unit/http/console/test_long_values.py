"""What a page shows of a value that is long, or that no page can hold as it is."""

from math import inf

import pytest

from app.domain.canonical import encode
from app.http.console.rendering import as_text, in_brief, on_one_line, shown_json
from app.services.views_story import MOST_SHOWN, Beginning


@pytest.mark.parametrize("value", [{"n": inf}, {"n": inf, "rows": ["x" * 100] * 100}])
def test_a_number_that_no_json_can_carry_is_null(value: object) -> None:
    assert on_one_line(value).startswith('{"n": null')
    assert '"n": null' in shown_json(value)
    assert in_brief(value).startswith('{"n": null')


def test_what_fits_is_shown_in_lines_and_what_does_not_on_one() -> None:
    assert shown_json({"a": ["é\u202e"]}) == '{\n  "a": [\n    "é\\u202e"\n  ]\n}'
    assert shown_json(["x" * MOST_SHOWN, "y"]) == f'["{"x" * MOST_SHOWN}", "y"]'


def test_the_beginning_of_a_value_has_its_letters_and_what_cannot_be_seen_as_its_escape() -> None:
    value = {"é": "\U0001f600\u202e\x00\\u00e9\n"}
    assert shown_json(Beginning(encode(value))) == (
        '{"é":"\U0001f600\\u202e\\u0000\\\\u00e9\\n"}\u2026'
    )


def test_the_beginning_of_a_text_is_text_wherever_it_ends() -> None:
    text = 'é\n"\\'
    stored = encode(text)
    for end in range(1, len(stored)):
        begun = as_text(Beginning(stored[:end]))
        assert begun is not None
        assert text.startswith(begun.removesuffix("\u2026"))
    assert as_text(Beginning(stored[:-1])) == f"{text}\u2026"
    assert as_text(Beginning("[")) is None
