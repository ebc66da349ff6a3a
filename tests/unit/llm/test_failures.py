import pytest

from app.llm.failures import is_maybe_paid, judge_status, judge_type, read_retry_after


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 524, 529])
def test_a_passing_trouble_is_tried_again(status: int) -> None:
    assert judge_status(status) == "retry"


@pytest.mark.parametrize("status", [302, 400, 401, 402, 403, 404, 413, 422, 431])
def test_a_request_that_can_never_work_is_fatal(status: int) -> None:
    assert judge_status(status) == "fatal"


@pytest.mark.parametrize(
    ("type_", "verdict"),
    [
        ("overloaded_error", "retry"),
        ("api_error", "retry"),
        ("rate_limit_error", "retry"),
        ("timeout_error", "retry"),
        ("error_of_the_future", "retry"),
        ("invalid_request_error", "fatal"),
        ("authentication_error", "fatal"),
    ],
)
def test_in_mid_stream_the_type_decides(type_: str, verdict: str) -> None:
    assert judge_type(type_) == verdict


def test_only_a_time_out_leaves_open_whether_it_was_paid() -> None:
    assert [s for s in (400, 408, 429, 500, 503, 504, 529) if is_maybe_paid(s)] == [408, 504]


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "2"}, 2.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        (
            {
                "retry-after": "Wed, 21 Oct 2026 07:28:30 GMT",
                "date": "Wed, 21 Oct 2026 07:28:00 GMT",
            },
            30.0,
        ),
        (
            {
                "retry-after": "Wed, 21 Oct 2026 07:28:00 GMT",
                "date": "Wed, 21 Oct 2026 07:28:30 GMT",
            },
            0.0,
        ),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}, None),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT", "date": "-"}, None),
        (
            {"retry-after": "Wed, 21 Oct 2026 07:28:00", "date": "Wed, 21 Oct 2026 07:28:00 GMT"},
            None,
        ),
    ],
)
def test_retry_after_is_read_in_every_form(headers: dict[str, str], seconds: float | None) -> None:
    assert read_retry_after(headers) == seconds
