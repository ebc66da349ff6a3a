from itertools import accumulate

import pytest

from app.domain.webhooks import LIFETIME_SECONDS, PAUSES, is_delivered, pause_after


def test_attempts_come_soon_at_first_and_then_seldom() -> None:
    assert [pause_after(attempt, 500, None) for attempt in (1, 2, 3, 4)] == [1, 5, 15, 60]
    assert list(PAUSES) == sorted(PAUSES)
    assert pause_after(1000, None, None) == PAUSES[-1]


def test_three_days_hold_some_fifteen_attempts() -> None:
    pauses = [pause_after(attempt, 500, None) or 0 for attempt in range(1, 30)]
    assert sum(at < LIFETIME_SECONDS for at in accumulate(pauses)) in range(12, 18)


def test_gone_means_never_again() -> None:
    assert pause_after(1, 410, None) is None
    assert pause_after(1, 410, 5.0) is None


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_receiver_can_ask_for_more_time_up_to_an_hour_and_not_for_less(status: int) -> None:
    assert pause_after(1, status, 30.0) == 30
    assert pause_after(4, status, 2.0) == 60
    assert pause_after(1, status, 10.0**9) == 3600
    assert pause_after(10, status, 10.0**9) == 36000


@pytest.mark.parametrize("status", [None, 400, 500, 502])
def test_others_cannot(status: int | None) -> None:
    assert pause_after(1, status, 30.0) == 1


def test_only_a_two_hundred_is_a_success() -> None:
    assert [is_delivered(status) for status in (200, 204, 299)] == [True] * 3
    assert not any(is_delivered(status) for status in (101, 199, 300, 302, 400, 410, 500))
