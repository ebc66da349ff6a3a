"""Ids: what they look like, and that the derived ones never change."""

import re

import pytest

from app.domain.ids import (
    ALPHABET,
    call_id,
    idempotency_key,
    leg_id,
    new_message_id,
    new_run_id,
    new_session_id,
    new_trace_id,
    new_worker_id,
)

RUN = "run_0123456789abcdefghjkmnpqrs"


@pytest.mark.parametrize(
    ("made", "prefix"), [(new_run_id, "run"), (new_session_id, "ses"), (new_message_id, "msg")]
)
def test_an_id_is_its_prefix_and_26_characters(made: object, prefix: str) -> None:
    assert callable(made)
    assert re.fullmatch(rf"{prefix}_[{ALPHABET}]{{26}}", made())


def test_ids_sort_by_age_from_one_millisecond_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter(range(1_700_000_000_000_000_000, 1_700_000_001_000_000_000, 1_000_000))
    monkeypatch.setattr("app.domain.ids.time.time_ns", lambda: next(times))

    made = [new_run_id() for _ in range(500)]

    assert made == sorted(made)


def test_ids_of_one_millisecond_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.domain.ids.time.time_ns", lambda: 1_700_000_000_000_000_000)

    assert len({new_run_id() for _ in range(2000)}) == 2000


def test_an_id_holds_the_time_for_thousands_of_years(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.domain.ids.time.time_ns", lambda: (2**48 - 1) * 1_000_000)

    assert len(new_run_id()) == len("run_") + 26


def test_two_workers_of_one_process_number_are_not_the_same() -> None:
    assert new_worker_id("box", 7) != new_worker_id("box", 7)
    assert new_worker_id("box", 7).startswith("box-7-")


def test_a_trace_id_is_32_hex_digits() -> None:
    assert re.fullmatch("[0-9a-f]{32}", new_trace_id())


def test_a_leg_is_the_run_and_its_number() -> None:
    assert leg_id(RUN, 3) == f"{RUN}:3"


def test_a_call_is_named_by_its_place_alone() -> None:
    assert call_id(RUN, 2, 0) == "call_0123456789abcdefghjkmnpqrs_2_0"


def test_the_key_of_a_call_does_not_know_its_attempt() -> None:
    assert idempotency_key(RUN, 2, 0) == f"{RUN}/2/0"


def test_neighbouring_places_never_share_a_name() -> None:
    places = [(turn, index) for turn in (1, 11, 111) for index in (0, 1, 10, 11)]

    assert len({call_id(RUN, *place) for place in places}) == len(places)
    assert len({idempotency_key(RUN, *place) for place in places}) == len(places)
