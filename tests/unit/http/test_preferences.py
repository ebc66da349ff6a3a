import pytest
from starlette.requests import Request

from app.errors import Invalid
from app.http.preferences import (
    Preference,
    idempotency_key_of,
    preference_of,
    trace_id_of,
)

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"


def request(*headers: tuple[str, str]) -> Request:
    raw = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers]
    return Request({"type": "http", "headers": raw})


@pytest.mark.parametrize(
    ("headers", "wait", "applied"),
    [
        ([], 0, None),
        (["wait=10"], 10, "wait=10"),
        (["wait=60"], 60, "wait=60"),
        (["wait=61"], 60, "wait=60"),
        (["WAIT = 5"], 5, "wait=5"),
        (['wait="5"'], 5, "wait=5"),
        (["wait=5; strict"], 5, "wait=5"),
        (["respond-async, wait=5"], 5, "wait=5"),
        (["respond-async", "wait=5"], 5, "wait=5"),
        (["wait=5, wait=9"], 5, "wait=5"),
        (["wait=0"], 0, "wait=0"),
        (["respond-async"], 0, "respond-async"),
        (["wait"], 0, None),
        (["wait=-1"], 0, None),
        (["wait=1.5"], 0, None),
        (["wait=soon"], 0, None),
        (["wait=" + "9" * 5000], 0, None),
        (["wait=\xb2"], 0, None),
        (["return=minimal"], 0, None),
        ([",;=,"], 0, None),
    ],
)
def test_prefer_is_read_as_the_rfc_says(headers: list[str], wait: int, applied: str | None) -> None:
    given = request(*(("Prefer", value) for value in headers))

    assert preference_of(given) == Preference(wait, applied)


@pytest.mark.parametrize(
    ("header", "key"),
    [("abc", "abc"), ('"abc"', "abc"), (r'"a\"b\\c"', r'a"b\c'), ("x" * 255, "x" * 255)],
)
def test_a_key_is_the_same_bare_and_quoted(header: str, key: str) -> None:
    assert idempotency_key_of(request(("Idempotency-Key", header))) == key


def test_without_the_header_there_is_no_key() -> None:
    assert idempotency_key_of(request()) is None


def test_two_keys_are_none() -> None:
    with pytest.raises(Invalid):
        idempotency_key_of(request(("Idempotency-Key", "a"), ("Idempotency-Key", "b")))


@pytest.mark.parametrize(
    "traceparent",
    [f"00-{TRACE}-{PARENT}-01", f" 00-{TRACE}-{PARENT}-00 ", f"cc-{TRACE}-{PARENT}-01-more"],
)
def test_the_clients_trace_goes_on(traceparent: str) -> None:
    assert trace_id_of(request(("traceparent", traceparent))) == TRACE


@pytest.mark.parametrize(
    "traceparent",
    [
        "",
        "00",
        f"ff-{TRACE}-{PARENT}-01",
        f"00-{TRACE}-{PARENT}-01-more",
        f"00-{TRACE.upper()}-{PARENT}-01",
        f"00-{'0' * 32}-{PARENT}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE[1:]}-{PARENT}-01",
        f"00-{TRACE}-{PARENT}",
        f"00-{TRACE}-{PARENT}-0\xb2",
    ],
)
def test_a_broken_trace_is_replaced(traceparent: str) -> None:
    made = trace_id_of(request(("traceparent", traceparent)))

    assert made != TRACE
    assert len(bytes.fromhex(made)) == 16
    assert made != "0" * 32
