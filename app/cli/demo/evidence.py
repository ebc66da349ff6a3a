"""What was seen in one act, and whether it is what was promised."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """`ledger`: the provider's rows for this order; `model_requests`: counted by the model.

    `killed` and `successor` are the two workers of the act.
    """

    run: Json
    turns: Sequence[Json]
    calls: Sequence[Json]
    events: Sequence[Json]
    ledger: Sequence[Json]
    model_requests: int
    killed: str
    successor: str

    @property
    def payment(self) -> Json:
        return self.calls[-1]

    def count(self, event: str) -> int:
        return sum(each["type"] == event for each in self.events)


@dataclass(frozen=True, kw_only=True)
class Takeover(Evidence):
    """`sent_again`: after the kill another payment request arrived where none may."""

    sent_again: bool

    @property
    def remark(self) -> tuple[str, str]:
        resumed = (event for event in self.events if event["type"] == "run.resumed")
        replayed = sum(event["data"]["replayed_steps"] for event in resumed)
        return "journal", f"{replayed} finished steps given back to the new worker"


@dataclass(frozen=True)
class Answer:
    """What one person was told who allowed the call: the wait, or a problem."""

    person: str
    status: int
    told: Json


@dataclass(frozen=True, kw_only=True)
class Approval(Evidence):
    """The service's pids, and the run's waits, from before the kill and from after it.

    `paid_early`: what the provider's ledger had for this order before anybody had answered.
    """

    before: Mapping[str, int | None]
    after: Mapping[str, int | None]
    asked: Sequence[Json]
    found: Sequence[Json]
    answers: Sequence[Answer]
    paid_early: Sequence[Json]

    @property
    def remark(self) -> tuple[str, str]:
        asked, resolved = self.count("wait.opened"), self.count("wait.resolved")
        return "wait", (
            f"asked {times(asked)}, answered {times(len(self.answers))}, resolved {times(resolved)}"
        )


Seen = Takeover | Approval


@dataclass(frozen=True)
class Check:
    text: str
    holds: bool


Checks = Callable[[Takeover], list[Check]]


@dataclass(frozen=True)
class Step:
    """One line of the closing table: what each of the two workers did about it."""

    name: str
    attempts: int
    first: str
    second: str


def check_refund(seen: Takeover) -> list[Check]:
    rows = seen.ledger
    once_under_key = [row["key"] for row in rows] == [seen.payment["idempotency_key"]]
    return [
        Check("the run was taken over and carried to its end", _was_taken_over(seen)),
        *_check_all(seen),
        Check("the provider's ledger has one row for the order", len(rows) == 1),
        Check(
            "the refund was sent twice under one key, and booked once",
            once_under_key and rows[0]["calls"] == 2 and seen.payment["attempts"] == 2,
        ),
        Check("the refund succeeded", seen.payment["state"] == "succeeded"),
    ]


def check_wire(seen: Takeover) -> list[Check]:
    told = (seen.run["output"] or {}).get("text", "")
    return [
        Check("the run was taken over and carried to its end", _was_taken_over(seen)),
        *_check_all(seen),
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


def check_approval(seen: Approval) -> list[Check]:
    states = [wait["state"] for wait in seen.found]
    return [
        Check("every process was killed, and others carried on to the end", _was_carried_on(seen)),
        *_check_all(seen),
        Check(
            "the question outlived them word for word, and was asked once",
            seen.found == seen.asked and states == ["open"] and seen.count("wait.opened") == 1,
        ),
        Check("nothing was paid before it was allowed", not seen.paid_early),
        Check("both people were told of one and the same decision", _was_decided_once(seen)),
        Check("what they were shown was sent once and booked once", _was_paid_as_shown(seen)),
        Check("the refund succeeded", seen.payment["state"] == "succeeded"),
    ]


def _check_all(seen: Evidence) -> Iterator[Check]:
    usage = seen.run["usage"]
    finished = [*seen.turns, *seen.calls[:-1]]
    yield Check(
        "the model was asked once for each turn, and none was paid twice",
        seen.model_requests == len(seen.turns) == usage["model_calls"]
        and usage["repaid_model_calls"] == 0,
    )
    yield Check(
        "nothing that had finished was run again", all(step["attempts"] == 1 for step in finished)
    )


def _was_taken_over(seen: Takeover) -> bool:
    taken = [event["data"] for event in seen.events if event["type"] == "run.taken_over"]
    workers = [(event["from_worker"], event["worker"]) for event in taken]
    return seen.run["status"] == "succeeded" and workers == [(seen.killed, seen.successor)]


def _was_carried_on(seen: Approval) -> bool:
    pids = [(pid, seen.after.get(name)) for name, pid in seen.before.items()]
    are_others = bool(pids) and all(old and new and old != new for old, new in pids)
    workers = [attempt["worker"] for attempt in seen.payment["history"]]
    carried_on = workers == [seen.successor] and seen.successor != seen.killed
    return are_others and carried_on and seen.run["status"] == "succeeded"


def _was_decided_once(seen: Approval) -> bool:
    told = [answer.told for answer in seen.answers if answer.status == 200]
    return (
        len(told) == len(seen.answers) == 2
        and told[0] == told[1]
        and told[0]["resolution"]["decision"] == "allow"
        and seen.count("wait.resolved") == 1
    )


def _was_paid_as_shown(seen: Approval) -> bool:
    shown = [(wait["arguments"]["order_id"], wait["arguments"]["cents"]) for wait in seen.asked]
    booked = [(row["order_id"], row["cents"]) for row in seen.ledger]
    sent = [(row["key"], row["calls"]) for row in seen.ledger]
    once = seen.payment["attempts"] == 1 and sent == [(seen.payment["idempotency_key"], 1)]
    return once and booked == shown


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
        return Step(
            name, row["attempts"], "asked" if row.get("approval") == "always" else "", "ran"
        )
    if first != "interrupted":
        kept = "from the journal" if seen.count("run.taken_over") else "from the tables"
        return Step(name, row["attempts"], "ran", kept)
    if second is None:
        return Step(name, row["attempts"], "started, killed", "not run again")
    return Step(name, row["attempts"], "started, killed", "ran again, same key")


def times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"
