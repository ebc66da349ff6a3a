"""The states of runs and of what they wait for, and what may be said of them."""

from typing import Literal, get_args

Status = Literal[
    "queued", "running", "waiting", "cancelling", "succeeded", "failed", "cancelled", "dead_letter"
]
Ended = Literal["succeeded", "failed", "cancelled", "dead_letter"]
ENDED: frozenset[str] = frozenset(get_args(Ended))
TERMINAL = frozenset(f"run.{status}" for status in ENDED)

OnBusy = Literal["queue", "reject", "supersede", "return_existing"]

WaitKind = Literal["approval", "outcome", "input", "external", "timer", "child"]
WaitState = Literal["open", "resolved", "expired", "superseded", "cancelled"]

Outcome = Literal["happened", "did_not_happen", "skip"]
