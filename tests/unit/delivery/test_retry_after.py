import pytest

from app.delivery.post import retry_after

NOON = "Sun, 29 Nov 2026 12:00:00 GMT"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "120"}, 120),
        ({"retry-after": "0"}, 0),
        ({"retry-after": "9" * 400}, 999999999),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "1.5"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "\u0663"}, None),
        ({"retry-after": "Sun, 29 Nov 2026 12:01:30 GMT", "date": NOON}, 90),
        ({"retry-after": "Sun, 29 Nov 2026 11:00:00 GMT", "date": NOON}, 0),
        ({"retry-after": "Sun, 29 Nov 2026 12:01:30 GMT"}, None),
        ({"retry-after": "Sun, 29 Nov 2026 12:01:30 -0000", "date": NOON}, None),
    ],
)
def test_it_is_in_seconds_or_by_the_receivers_own_clock(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert retry_after(headers) == seconds
