"""The checks of `perdure demo` can fail: each lie about what was seen is found out."""

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from app.cli.demo.evidence import (
    Answer,
    Approval,
    Check,
    Takeover,
    check_approval,
    check_refund,
    check_wire,
    list_steps,
)

FIRST, SECOND = "host-1-aaaa", "host-2-bbbb"
KEY = "run_1/2/0"
Act = TypeVar("Act", Takeover, Approval)


def attempt(worker: str, outcome: str) -> dict[str, Any]:
    return {"worker": worker, "outcome": outcome}


def seen(payment: dict[str, Any], answer: str) -> dict[str, Any]:
    """What all acts have, with two turns, of which the second follows the payment."""
    call = {"turn": 1, "tool": "pay", "idempotency_key": KEY, **payment}
    turns = [
        {"number": 1, "attempts": 1, "history": [attempt(FIRST, "answered")]},
        {"number": 2, "attempts": 1, "history": [attempt(SECOND, "answered")]},
    ]
    usage = {"model_calls": 2, "repaid_model_calls": 0}
    return {
        "run": {"status": "succeeded", "usage": usage, "output": {"text": answer}},
        "turns": turns,
        "calls": [call],
        "model_requests": 2,
        "killed": FIRST,
        "successor": SECOND,
    }


def taken_over(payment: dict[str, Any], answer: str, requests: int) -> Takeover:
    return Takeover(
        **seen(payment, answer),
        events=[{"type": "run.taken_over", "data": {"from_worker": FIRST, "worker": SECOND}}],
        ledger=[{"key": KEY, "calls": requests}],
        sent_again=False,
    )


AGAIN = [attempt(FIRST, "interrupted"), attempt(SECOND, "succeeded")]
REFUNDED = taken_over({"state": "succeeded", "attempts": 2, "history": AGAIN}, "refunded", 2)
UNKNOWN = taken_over(
    {"state": "outcome_unknown", "attempts": 1, "history": AGAIN[:1]}, "it is unknown", 1
)
PAID_TWICE = {"key": KEY, "calls": 1}
UNTOLD = UNKNOWN.run | {"output": {"text": "refunded"}}
REPAID = REFUNDED.run | {"usage": {"model_calls": 2, "repaid_model_calls": 1}}
RAN_AGAIN = [REFUNDED.turns[0] | {"attempts": 2}, REFUNDED.turns[1]]

PAYMENT = {"order_id": "1005", "cents": 7}
ASKED = {"id": "wait_1", "state": "open", "arguments": PAYMENT}
RESOLVED = ASKED | {"state": "resolved", "resolution": {"decision": "allow"}, "on_behalf_of": "a"}
BEFORE: dict[str, int | None] = {"database": 1, "api": 2, "worker": 3}
AFTER: dict[str, int | None] = {"database": 4, "api": 5, "worker": 6}
ALLOWED = Approval(
    **seen(
        {"state": "succeeded", "attempts": 1, "history": AGAIN[1:], "approval": "always"},
        "refunded",
    ),
    events=[{"type": "wait.opened"}, {"type": "wait.resolved"}],
    ledger=[PAYMENT | {"key": KEY, "calls": 1}],
    before=BEFORE,
    after=AFTER,
    asked=[ASKED],
    found=[ASKED],
    answers=[Answer("a", 200, RESOLVED), Answer("b", 200, RESOLVED)],
    paid_early=[],
)
BOOKED = ALLOWED.ledger[0]
OTHER_CASE = RESOLVED | {"on_behalf_of": "b"}
DENIED = RESOLVED | {"resolution": {"decision": "deny"}}

REFUND_LIES = [
    {"ledger": [*REFUNDED.ledger, PAID_TWICE]},
    {"ledger": [{"key": "another key", "calls": 2}]},
    {"ledger": []},
    {"calls": [REFUNDED.payment | {"attempts": 1}]},
    {"calls": [REFUNDED.payment | {"state": "failed"}]},
    {"model_requests": 3},
    {"run": REPAID},
    {"turns": RAN_AGAIN},
    {"events": []},
    {"successor": FIRST},
    {"run": REFUNDED.run | {"status": "failed"}},
]
WIRE_LIES = [
    {"ledger": [*UNKNOWN.ledger, PAID_TWICE]},
    {"sent_again": True},
    {"calls": [UNKNOWN.payment | {"state": "succeeded"}]},
    {"calls": [UNKNOWN.payment | {"attempts": 2}]},
    {"run": UNTOLD},
    {"model_requests": 3},
    {"turns": RAN_AGAIN},
    {"events": []},
]
APPROVAL_LIES = [
    {"before": {}},
    {"after": {}},
    {"after": AFTER | {"database": 1}},
    {"after": AFTER | {"worker": None}},
    {"run": ALLOWED.run | {"status": "failed"}},
    {"calls": [ALLOWED.payment | {"history": []}]},
    {"calls": [ALLOWED.payment | {"history": [attempt(FIRST, "succeeded")]}]},
    {"calls": [ALLOWED.payment | {"history": AGAIN}]},
    {"killed": SECOND},
    {"found": []},
    {"found": [ASKED | {"id": "wait_2"}]},
    {"found": [ASKED, ASKED | {"id": "wait_2"}]},
    {"found": [RESOLVED]},
    {"asked": [RESOLVED], "found": [RESOLVED]},
    {"events": [{"type": "wait.opened"}, *ALLOWED.events]},
    {"events": [*ALLOWED.events, {"type": "wait.resolved"}]},
    {"paid_early": ALLOWED.ledger},
    {"answers": ALLOWED.answers[:1]},
    {"answers": [ALLOWED.answers[0], Answer("b", 409, {})]},
    {"answers": [ALLOWED.answers[0], Answer("b", 200, OTHER_CASE)]},
    {"answers": [Answer("a", 200, DENIED), Answer("b", 200, DENIED)]},
    {"ledger": []},
    {"ledger": [BOOKED, BOOKED | {"key": "run_1/3/0"}]},
    {"ledger": [BOOKED | {"calls": 2}]},
    {"ledger": [BOOKED | {"key": "another key"}]},
    {"ledger": [BOOKED | {"cents": 8}]},
    {"calls": [ALLOWED.payment | {"attempts": 2}]},
    {"calls": [ALLOWED.payment | {"state": "failed"}]},
    {"model_requests": 3},
    {"run": REPAID},
    {"turns": RAN_AGAIN},
]


def test_what_is_as_promised_passes_every_check() -> None:
    assert all(check.holds for check in check_refund(REFUNDED))
    assert all(check.holds for check in check_wire(UNKNOWN))
    assert all(check.holds for check in check_approval(ALLOWED))


@pytest.mark.parametrize("lie", REFUND_LIES)
def test_a_broken_promise_about_the_refund_is_seen(lie: dict[str, Any]) -> None:
    checks = check_refund(dataclasses.replace(REFUNDED, **lie))
    assert not all(check.holds for check in checks)


@pytest.mark.parametrize("lie", WIRE_LIES)
def test_a_broken_promise_about_the_transfer_is_seen(lie: dict[str, Any]) -> None:
    checks = check_wire(dataclasses.replace(UNKNOWN, **lie))
    assert not all(check.holds for check in checks)


@pytest.mark.parametrize("lie", APPROVAL_LIES)
def test_a_broken_promise_about_the_approval_is_seen(lie: dict[str, Any]) -> None:
    checks = check_approval(dataclasses.replace(ALLOWED, **lie))
    assert not all(check.holds for check in checks)


@pytest.mark.parametrize(
    ("check", "truth", "lies"),
    [
        (check_refund, REFUNDED, REFUND_LIES),
        (check_wire, UNKNOWN, WIRE_LIES),
        (check_approval, ALLOWED, APPROVAL_LIES),
    ],
)
def test_each_check_fails_for_some_lie(
    check: Callable[[Act], list[Check]], truth: Act, lies: list[dict[str, Any]]
) -> None:
    judged = [check(dataclasses.replace(truth, **lie)) for lie in lies]
    failed = {each.text for checks in judged for each in checks if not each.holds}
    assert failed == {each.text for each in check(truth)}


def test_the_table_tells_what_each_worker_did() -> None:
    refunded = [(step.first, step.second) for step in list_steps(REFUNDED)]
    unknown = [(step.first, step.second) for step in list_steps(UNKNOWN)]
    assert refunded == [
        ("ran", "from the journal"),
        ("started, killed", "ran again, same key"),
        ("", "ran"),
    ]
    assert unknown[1] == ("started, killed", "not run again")
    allowed = [(step.first, step.second) for step in list_steps(ALLOWED)]
    assert allowed == [("ran", "from the tables"), ("asked", "ran"), ("", "ran")]
