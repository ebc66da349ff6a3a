from datetime import UTC, datetime

import pytest

from app.errors import Invalid
from app.services.views_pages import Listing, instant, name, number

AT = datetime(2030, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


def cursor_of(listing: Listing) -> str:
    page = listing.page([(AT, "run_1"), (AT, "run_2")], lambda item: {}, lambda item: item)
    assert isinstance(page["next"], str)
    return page["next"]


def test_a_page_ends_where_the_next_one_begins() -> None:
    first = Listing("runs", 1, filters={"agent": "desk", "created_after": AT})

    following = Listing("runs", 9, cursor_of(first), first.filters)

    assert following.start(instant, name) == (AT, "run_1")


def test_the_last_page_has_no_next() -> None:
    page = Listing("runs", 2).page(["a", "b"], lambda item: {"id": item}, lambda item: (item,))

    assert page == {"data": [{"id": "a"}, {"id": "b"}], "next": None}


@pytest.mark.parametrize(
    "other",
    [
        Listing("waits", 1, filters={"agent": "desk"}),
        Listing("runs", 1),
        Listing("runs", 1, filters={"agent": "other"}),
        Listing("runs", 1, filters={"agent": "desk", "status": "queued"}),
    ],
)
def test_a_cursor_of_another_list_or_filter_is_refused(other: Listing) -> None:
    cursor = cursor_of(Listing("runs", 1, filters={"agent": "desk"}))

    with pytest.raises(Invalid):
        Listing(other.name, 1, cursor, other.filters).start(instant, name)


def test_a_cursor_of_another_shape_is_refused() -> None:
    cursor = cursor_of(Listing("runs", 1))

    with pytest.raises(Invalid):
        Listing("runs", 1, cursor).start(number, number)
    with pytest.raises(Invalid):
        Listing("runs", 1, cursor).start(instant)


@pytest.mark.parametrize("part", ["x", "2030-01-01T00:00:00", "", 5, None])
def test_an_instant_has_a_zone(part: object) -> None:
    with pytest.raises((ValueError, TypeError)):
        instant(part)


@pytest.mark.parametrize("part", [-1, True, "1", 2**63, 1.0, None])
def test_a_number_is_one_that_a_column_can_hold(part: object) -> None:
    with pytest.raises(ValueError, match="not a number"):
        number(part)


@pytest.mark.parametrize("part", ["", "a\x00", "a b", 1, None, "x" * 201])
def test_a_name_has_plain_characters(part: object) -> None:
    with pytest.raises(ValueError, match="not a name"):
        name(part)
