"""The tables of the tool contract: what a crash, an end, a finding means, by policy."""

import itertools
from typing import get_args

import pytest

from app.domain.replay import (
    Attempts,
    End,
    Finding,
    Policy,
    Verdict,
    after_crash,
    after_end,
    after_reconcile,
    agreed,
    writes_intent,
)

POLICIES: tuple[Policy, ...] = get_args(Policy)
FIRST_OF_THREE = Attempts(failed=1, allowed=3)
LAST_OF_THREE = Attempts(failed=3, allowed=3)


@pytest.mark.parametrize(
    ("policy", "intent"),
    [
        ("read_only", False),
        ("idempotent", True),
        ("transactional", False),
        ("at_most_once", True),
    ],
)
def test_before_the_effect(policy: Policy, intent: bool) -> None:
    assert writes_intent(policy) is intent


@pytest.mark.parametrize(
    ("policy", "crash", "crash_of_a_cancelled_run"),
    [
        ("read_only", Verdict.RUN, Verdict.CANCEL),
        ("idempotent", Verdict.RUN, Verdict.RECONCILE),
        ("transactional", Verdict.RUN, Verdict.CANCEL),
        ("at_most_once", Verdict.RECONCILE, Verdict.RECONCILE),
    ],
)
def test_after_a_crash_with_intent_but_no_outcome(
    policy: Policy, crash: Verdict, crash_of_a_cancelled_run: Verdict
) -> None:
    assert after_crash(policy, cancelling=False) is crash
    assert after_crash(policy, cancelling=True) is crash_of_a_cancelled_run


# ToolError | another exception or a time-out: with attempts left | the last one | a cancel
ENDS: list[tuple[Policy, Verdict, Verdict, Verdict, Verdict]] = [
    ("read_only", Verdict.FAIL, Verdict.AGAIN, Verdict.FAIL, Verdict.CANCEL),
    ("idempotent", Verdict.FAIL, Verdict.AGAIN, Verdict.RECONCILE, Verdict.RECONCILE),
    ("transactional", Verdict.FAIL, Verdict.AGAIN, Verdict.FAIL, Verdict.CANCEL),
    ("at_most_once", Verdict.FAIL, Verdict.RECONCILE, Verdict.RECONCILE, Verdict.RECONCILE),
]


@pytest.mark.parametrize(("policy", "told", "again", "last", "cancelled"), ENDS)
def test_what_ends_a_call(
    policy: Policy, told: Verdict, again: Verdict, last: Verdict, cancelled: Verdict
) -> None:
    for attempts in (FIRST_OF_THREE, LAST_OF_THREE):
        assert after_end(policy, End.TOLD, attempts) is told
        assert after_end(policy, End.CANCELLED, attempts) is cancelled
    for end in (End.RAISED, End.TIMED_OUT, End.STILL_RUNNING):
        assert after_end(policy, end, FIRST_OF_THREE) is again
        assert after_end(policy, end, LAST_OF_THREE) is last


@pytest.mark.parametrize("policy", ["read_only", "idempotent", "transactional"])
@pytest.mark.parametrize(
    ("failed", "allowed", "more"), [(1, 1, False), (1, 2, True), (2, 2, False)]
)
def test_attempts_are_counted_with_this_one(
    policy: Policy, failed: int, allowed: int, more: bool
) -> None:
    verdict = after_end(policy, End.RAISED, Attempts(failed, allowed))

    assert (verdict is Verdict.AGAIN) is more


@pytest.mark.parametrize("end", [end for end in End if end is not End.TOLD])
def test_an_at_most_once_call_never_runs_again_by_itself(end: End) -> None:
    for attempts in (FIRST_OF_THREE, LAST_OF_THREE):
        assert after_end("at_most_once", end, attempts) is Verdict.RECONCILE
    for cancelling in (False, True):
        assert after_crash("at_most_once", cancelling=cancelling) is Verdict.RECONCILE


# finding | the earlier attempt can act no more | the run is being cancelled
FINDINGS: list[tuple[Finding, bool, bool, Verdict]] = [
    (Finding.HAPPENED, True, False, Verdict.SUCCEED),
    (Finding.HAPPENED, True, True, Verdict.SUCCEED),
    (Finding.HAPPENED, False, False, Verdict.SUCCEED),
    (Finding.HAPPENED, False, True, Verdict.SUCCEED),
    (Finding.DID_NOT_HAPPEN, True, False, Verdict.AGAIN),
    (Finding.DID_NOT_HAPPEN, True, True, Verdict.CANCEL),
    (Finding.DID_NOT_HAPPEN, False, False, Verdict.UNKNOWN),
    (Finding.DID_NOT_HAPPEN, False, True, Verdict.UNKNOWN),
    (Finding.CANNOT_TELL, True, False, Verdict.UNKNOWN),
    (Finding.CANNOT_TELL, True, True, Verdict.UNKNOWN),
    (Finding.CANNOT_TELL, False, False, Verdict.UNKNOWN),
    (Finding.CANNOT_TELL, False, True, Verdict.UNKNOWN),
]


@pytest.mark.parametrize(("finding", "over", "cancelling", "verdict"), FINDINGS)
def test_what_a_finding_means(
    finding: Finding, over: bool, cancelling: bool, verdict: Verdict
) -> None:
    assert after_reconcile(finding, FIRST_OF_THREE, over=over, cancelling=cancelling) is verdict


def test_the_table_of_findings_is_whole() -> None:
    cells = itertools.product(Finding, (True, False), (True, False))

    assert {row[:3] for row in FINDINGS} == set(cells)


@pytest.mark.parametrize(
    ("attempts", "verdict"),
    [
        (Attempts(failed=0, allowed=1), Verdict.AGAIN),  # a crash is not a failed attempt
        (Attempts(failed=1, allowed=1), Verdict.AGAIN),
        (Attempts(failed=2, allowed=1), Verdict.FAIL),
        (Attempts(failed=3, allowed=3), Verdict.AGAIN),
        (Attempts(failed=4, allowed=3), Verdict.FAIL),
    ],
)
def test_what_did_not_happen_gets_one_more_attempt_and_not_for_ever(
    attempts: Attempts, verdict: Verdict
) -> None:
    found = after_reconcile(Finding.DID_NOT_HAPPEN, attempts, over=True, cancelling=False)

    assert found is verdict


@pytest.mark.parametrize("finding", [Finding.DID_NOT_HAPPEN, Finding.CANNOT_TELL])
@pytest.mark.parametrize("attempts", [FIRST_OF_THREE, LAST_OF_THREE, Attempts(9, 3)])
def test_nothing_is_guessed_while_the_earlier_attempt_may_act(
    finding: Finding, attempts: Attempts
) -> None:
    for cancelling in (False, True):
        found = after_reconcile(finding, attempts, over=False, cancelling=cancelling)
        assert found is Verdict.UNKNOWN


@pytest.mark.parametrize("current", POLICIES)
@pytest.mark.parametrize("recorded", [None, *POLICIES])
def test_a_changed_policy_is_read_as_the_most_careful_one(
    recorded: Policy | None, current: Policy
) -> None:
    """Rule 7: `at_most_once`, except between `read_only` and `idempotent`: `idempotent`."""
    if recorded in (None, current):
        expected = current
    elif {recorded, current} == {"read_only", "idempotent"}:
        expected = "idempotent"
    else:
        expected = "at_most_once"

    assert agreed(recorded, current) == expected
    if recorded is not None:
        assert agreed(current, recorded) == expected
