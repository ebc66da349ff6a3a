"""What was seen in one act, and whether it is what was promised."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True)
class Evidence:
    """`ledger`: the provider's rows for this order; `model_requests`: counted by the model.

    `sent_again`: after the kill another payment request reached the provider where none may.
    """

    run: Json
    turns: Sequence[Json]
    calls: Sequence[Json]
    events: Sequence[Json]
    ledger: Sequence[Json]
    model_requests: int
    sent_again: bool
    killed: str
    successor: str

    @property
    def payment(self) -> Json:
        return self.calls[-1]

    @property
    def replayed(self) -> int:
        """Steps that the second worker took from the journal."""
        resumed = (event for event in self.events if event["type"] == "run.resumed")
        return sum(event["data"]["replayed_steps"] for event in resumed)


@dataclass(frozen=True)
class Check:
    text: str
    holds: bool


Checks = Callable[[Evidence], list[Check]]


@dataclass(frozen=True)
class Step:
    """One line of the closing table: what each of the two workers did about it."""

    name: str
    attempts: int
    first: str
    second: str


def check_refund(seen: Evidence) -> list[Check]:
    rows = seen.ledger
    once_under_key = [row["key"] for row in rows] == [seen.payment["idempotency_key"]]
    return [
        *_check_both(seen),
        Check("the provider's ledger has one row for the order", len(rows) == 1),
        Check(
            "the refund was sent twice under one key, and booked once",
            once_under_key and rows[0]["calls"] == 2 and seen.payment["attempts"] == 2,
        ),
        Check("the refund succeeded", seen.payment["state"] == "succeeded"),
    ]


def check_wire(seen: Evidence) -> list[Check]:
    told = (seen.run["output"] or {}).get("text", "")
    return [
        *_check_both(seen),
        Check(
            "the provider received the transfer once",
            [row["calls"] for row in seen.ledger] == [1] and not seen.sent_again,
        ),
        Check(
            "the call is recorded as outcome_unknown, after one attempt",
            (seen.payment["state"], seen.payment["attempts"]) == ("outcome_unknown", 1),
        ),
        Check("the model was told that the outcome is unknown", "unknown" in told),
    ]


def _check_both(seen: Evidence) -> Iterator[Check]:
    usage = seen.run["usage"]
    finished = [*seen.turns, *seen.calls[:-1]]
    yield Check("the run was taken over and carried to its end", _was_taken_over(seen))
    yield Check(
        "the model was asked once for each turn, and none was paid twice",
        seen.model_requests == len(seen.turns) == usage["model_calls"]
        and usage["repaid_model_calls"] == 0,
    )
    yield Check(
        "nothing that had finished was run again", all(step["attempts"] == 1 for step in finished)
    )


def _was_taken_over(seen: Evidence) -> bool:
    taken = [event["data"] for event in seen.events if event["type"] == "run.taken_over"]
    workers = [(event["from_worker"], event["worker"]) for event in taken]
    return seen.run["status"] == "succeeded" and workers == [(seen.killed, seen.successor)]


def list_steps(seen: Evidence) -> list[Step]:
    """In the order they were made in: each turn, then the calls it asked for."""
    steps = []
    for turn in seen.turns:
        steps.append(_step(seen, f"turn {turn['number']}: model call", turn))
        for call in seen.calls:
            if call["turn"] == turn["number"]:
                steps.append(_step(seen, f"        {call['tool']}", call))
    return steps


def _step(seen: Evidence, name: str, row: Json) -> Step:
    by_worker = {attempt["worker"]: attempt["outcome"] for attempt in row["history"]}
    first, second = by_worker.get(seen.killed), by_worker.get(seen.successor)
    if first is None:
        return Step(name, row["attempts"], "", "ran")
    if first != "interrupted":
        return Step(name, row["attempts"], "ran", "from the journal")
    if second is None:
        return Step(name, row["attempts"], "started, killed", "not run again")
    return Step(name, row["attempts"], "started, killed", "ran again, same key")
