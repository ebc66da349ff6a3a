"""The truth table of a tool call: what to do with it, and what its end means, by replay policy."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, assert_never

Policy = Literal["read_only", "idempotent", "transactional", "at_most_once"]


class Verdict(StrEnum):
    RUN = "run"
    AGAIN = "again"  # after a pause, under the same key
    RECONCILE = "reconcile"  # ask the outside world first
    FAIL = "fail"
    CANCEL = "cancel"
    UNKNOWN = "unknown"
    SUCCEED = "succeed"


class End(StrEnum):
    """How a tool's body ended."""

    TOLD = "told"  # the tool's author declared an error
    RAISED = "raised"
    TIMED_OUT = "timed_out"  # and is known to have ended
    STILL_RUNNING = "still_running"  # timed out in a thread, which cannot be stopped
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"  # its execution is gone


class Finding(StrEnum):
    """What a reconcile hook found out."""

    HAPPENED = "happened"
    DID_NOT_HAPPEN = "did_not_happen"
    CANNOT_TELL = "cannot_tell"


@dataclass(frozen=True)
class Attempts:
    failed: int
    allowed: int


def agreed(recorded: Policy | None, current: Policy) -> Policy:
    """Of the policy recorded with the intent and the tool's policy now, the more careful one."""
    if recorded is None or recorded == current:
        return current
    if {recorded, current} == {"read_only", "idempotent"}:
        return "idempotent"
    return "at_most_once"


def writes_intent(policy: Policy) -> bool:
    """Whether `started` must be committed before the tool is called."""
    return policy in ("idempotent", "at_most_once")


def after_crash(policy: Policy, *, cancelling: bool) -> Verdict:
    """A call with an intent and no outcome, whose execution is gone."""
    match policy:
        case "read_only" | "transactional":
            return Verdict.CANCEL if cancelling else Verdict.RUN
        case "idempotent":
            return Verdict.RECONCILE if cancelling else Verdict.RUN
        case "at_most_once":
            return Verdict.RECONCILE
        case _:
            assert_never(policy)


def after_end(policy: Policy, end: End, attempts: Attempts) -> Verdict:
    """A body that ended without a result. `attempts.failed` counts this one."""
    if end is End.TOLD:
        return Verdict.FAIL
    if end is End.CANCELLED:
        return Verdict.RECONCILE if writes_intent(policy) else Verdict.CANCEL
    more = attempts.failed < attempts.allowed
    match policy:
        case "read_only" | "transactional":
            return Verdict.AGAIN if more else Verdict.FAIL
        case "idempotent":
            return Verdict.AGAIN if more else Verdict.RECONCILE
        case "at_most_once":
            return Verdict.RECONCILE
        case _:
            assert_never(policy)


def after_reconcile(
    finding: Finding, attempts: Attempts, *, over: bool, cancelling: bool
) -> Verdict:
    """`over`: the earlier attempt can act no more. Only then does "it did not happen" stay true."""
    match finding:
        case Finding.HAPPENED:
            return Verdict.SUCCEED
        case Finding.CANNOT_TELL:
            return Verdict.UNKNOWN
        case Finding.DID_NOT_HAPPEN if not over:
            return Verdict.UNKNOWN
        case Finding.DID_NOT_HAPPEN if cancelling:
            return Verdict.CANCEL
        case Finding.DID_NOT_HAPPEN:
            return Verdict.AGAIN if attempts.failed <= attempts.allowed else Verdict.FAIL
        case _:
            assert_never(finding)
