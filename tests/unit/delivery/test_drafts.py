import pytest

from app.delivery.drafts import Delta, joined
from app.domain.events import LONGEST_DRAFT


def said(offset: int, text: str, turn: int = 1, attempt: int = 1) -> Delta:
    return Delta("run_1", turn, attempt, offset, text)


DRAFT = said(10, "abcdef")


@pytest.mark.parametrize(
    ("delta", "whole"),
    [
        pytest.param(said(16, "gh"), said(10, "abcdefgh"), id="what comes next"),
        pytest.param(said(12, "cd"), DRAFT, id="what was heard"),
        pytest.param(said(14, "efgh"), said(10, "abcdefgh"), id="partly heard"),
        pytest.param(said(20, "xy"), said(20, "xy"), id="after a gap"),
        pytest.param(said(0, "0123456789abcdef"), said(0, "0123456789abcdef"), id="from the start"),
        pytest.param(said(0, "0123"), DRAFT, id="again, not yet as far"),
        pytest.param(said(0, "new", attempt=2), said(0, "new", attempt=2), id="another attempt"),
        pytest.param(said(0, "new", turn=2), said(0, "new", turn=2), id="another turn"),
    ],
)
def test_pieces_are_joined(delta: Delta, whole: Delta) -> None:
    assert joined(DRAFT, delta) == whole


@pytest.mark.parametrize("late", [said(16, "x", attempt=1), said(16, "x", turn=0, attempt=9)])
def test_an_older_attempt_adds_nothing(late: Delta) -> None:
    draft = said(0, "text", attempt=2)

    assert joined(draft, late) == draft


def test_of_a_long_answer_the_end_is_kept() -> None:
    whole = joined(said(0, "a" * LONGEST_DRAFT), said(LONGEST_DRAFT, "bcd"))

    assert (whole.offset, len(whole.text), whole.text[-4:]) == (3, LONGEST_DRAFT, "abcd")
