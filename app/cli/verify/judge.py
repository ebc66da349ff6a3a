"""The invariants: what must be so however the worker ended, and whom to blame where it is not."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from app.cli.verify.recorder import Request
from app.cli.verify.scenario import Json, Scenario
from app.cli.verify.seen import Seen
from app.cli.verify.statements import Place
from app.domain.states import ENDED
from app.tools.agent import Agent


@dataclass(frozen=True)
class Breach:
    """`tool` and `source`: who is to blame; Perdure itself where it is no tool's fault."""

    invariant: str
    tool: str
    source: str
    seen: str


# Its number, and in which process; a crash before the intent gives the same number twice.
Attempt = tuple[int, int]


@dataclass(frozen=True)
class Calls:
    """What the requests of one call were, attempt by attempt."""

    row: Json
    place: Place
    sent: dict[Attempt, list[Request]]

    @property
    def all(self) -> list[Request]:
        return [request for attempt in self.sent.values() for request in attempt]


class Judge:
    """`baseline`: the trial in which nothing was done to the worker."""

    def __init__(self, agent: Agent, scenario: Scenario, baseline: Seen) -> None:
        self._agent = agent
        self._scenario = scenario
        self._baseline = baseline

    def judge(self, seen: Seen) -> list[Breach]:
        found = list(self._ends(seen))
        if not seen.ended:
            return found
        for check in (self._pairing, self._model_calls, self._audit, self._late, self._told):
            found += check(seen)
        for call in self._calls(seen):
            found += self._effects(call)
            found += self._same_end(call, seen)
        found += self._rows(seen)
        found += self._ledgers(seen)
        return list(dict.fromkeys(found))

    def _ends(self, seen: Seen) -> Iterator[Breach]:
        for run in seen.runs:
            if run["status"] not in ENDED:
                status = run["status"]
                yield self._own(seen, "every run ends", f"the run is still {status}")
        before = {run["status"] for run in self._baseline.runs}
        for run in seen.runs if seen.ended else ():
            if run["status"] not in before:
                error = json.dumps(run["error"]) if run["error"] else ""
                text = f"the run ended {run['status']} {run['reason'] or ''} {error}".strip()
                yield self._own(seen, "a run ends as it would without a crash", text)
            elif run["status"] != "succeeded" and seen is self._baseline:
                text = f"the run ended {run['status']}, without any crash: {run['error']}"
                yield self._own(seen, "a run succeeds", text)

    def _pairing(self, seen: Seen) -> Iterator[Breach]:
        for asked in seen.asked:
            if asked.refused:
                yield self._own(
                    seen, "valid pairing", f"the model refused a request: {asked.refused[:300]}"
                )

    def _model_calls(self, seen: Seen) -> Iterator[Breach]:
        invariant = "a finished model call is never paid for again"
        for text in seen.paid_again:
            yield Breach(invariant, *PERDURE, text)
        allowed = Counter(run["input"] for run in seen.runs)
        paid = Counter((asked.text, asked.k) for asked in seen.asked if asked.is_paid)
        for (text, k), times in paid.items():
            most = max(allowed[text], 1) + (1 if seen.was_struck else 0)
            if times > most:
                yield Breach(invariant, *PERDURE, f"turn {k + 1} was paid for {times} times")

    def _audit(self, seen: Seen) -> Iterator[Breach]:
        for text in seen.breaches:
            yield self._own(seen, text.partition(":")[0], text)

    def _late(self, seen: Seen) -> Iterator[Breach]:
        invariant = "a dead worker changes nothing any more"
        came = f"{seen.target.window if seen.target else ''} of the dead worker came late"
        if seen.late:
            yield Breach(invariant, *PERDURE, f"{came} and changed {', '.join(seen.late)}")
        elif seen.late_answer is not None and seen.late_answer not in REFUSALS:
            yield Breach(invariant, *PERDURE, f"{came} and was answered {seen.late_answer!r}")
        for text in seen.broken_answers:
            yield Breach("what was answered with 2xx is stored", *PERDURE, text)

    def _told(self, seen: Seen) -> Iterator[Breach]:
        """Each end of a call has exactly one event; one that was found out later has another."""
        told = Counter(
            (
                json.loads(event["data"])["call"]
                if isinstance(event["data"], str)
                else event["data"].get("call"),
                event["type"],
            )
            for event in seen.events
        )
        for call in seen.calls:
            if call["compensates"] is not None or call["origin"] is not None:
                continue
            for state in ("succeeded", "failed", "denied", "expired"):
                number = told[call["id"], f"call.{state}"]
                found_out = state == "succeeded" and told[call["id"], "call.reconciled"] > 0
                if number != (call["state"] == state) and not (found_out and number == 0):
                    text = f"the call is {call['state']}; events call.{state}: {number}"
                    yield self._blame(call, "events tell what happened, once", text)

    def _effects(self, call: Calls) -> Iterator[Breach]:
        changing = [each for each in call.all if each.was_sent and self._may_change(each)]
        match call.row["replay"]:
            case "idempotent":
                yield from self._idempotent(call)
            case "at_most_once":
                yield from self._at_most_once(call)
            case policy:
                for request, times in Counter(map(_identity, changing)).items():
                    if times > 1:
                        text = f"a {policy} tool sent {request[0]} {request[1]} {times} times"
                        yield self._blame(call.row, f"effects by policy: {policy}", text)

    def _idempotent(self, call: Calls) -> Iterator[Breach]:
        """In any order: what one attempt said and the other did not, though it said more."""
        first, *others = [
            [each for each in requests if self._may_change(each)] for requests in call.sent.values()
        ] or [[]]
        for later in others:
            missing = _less(first, later)
            for was, is_now in zip(missing, _less(later, first), strict=False):
                yield self._blame(call.row, "effects by policy: idempotent", _differ(was, is_now))

    def _at_most_once(self, call: Calls) -> Iterator[Breach]:
        invariant = "effects by policy: at_most_once"
        history = {each["attempt"]: each["outcome"] for each in call.row["history"]}
        excused = [each for each in call.sent if self._excused(call.row, history.get(each[0]))]
        sent = [each for each in call.sent if any(map(self._counts, call.sent[each]))]
        for number in excused:
            lied = [each for each in call.sent[number] if self._counts(each) and each.happened]
            if lied and len(sent) > 1 and call.row["settled"] is None:
                text = (
                    f"reconcile said that attempt {number[0]} did not happen, but {lied[0].method} "
                    f"{lied[0].path} had been answered with {lied[0].status}"
                )
                yield self._blame(call.row, invariant, text, hook="reconcile")
        unexcused = [number for number in sent if number not in excused]
        total = Counter(_identity(each) for each in call.all if self._counts(each))
        twice = [identity for identity, times in total.items() if times > 1 + len(excused)]
        if len(unexcused) > 1 or twice:
            text = f"it was sent {max(len(unexcused), *total.values())} times"
            yield self._blame(call.row, invariant, text)
        if history and list(history.values())[-1] == "reconciled" and not sent:
            text = "reconcile says that it happened, but nothing was ever sent"
            yield self._blame(call.row, invariant, text, hook="reconcile")

    def _excused(self, row: Json, outcome: str | None) -> bool:
        said = (row["settled"] or {}).get("outcome")
        return outcome in ("did_not_happen", "not_called") or said == "did_not_happen"

    def _same_end(self, call: Calls, seen: Seen) -> Iterator[Breach]:
        mine, was = call.row, self._find(call, seen)
        if was is None or mine["state"] == was["state"]:
            return
        if mine["state"] == "outcome_unknown" and mine["replay"] in ("at_most_once", "idempotent"):
            return
        result = json.dumps(mine["result"])[:200]
        text = f"it ended {mine['state']} ({result}); without a crash it is {was['state']}"
        yield self._blame(mine, "a call ends as it would without a crash", text)

    def _find(self, call: Calls, seen: Seen) -> Json | None:
        names = self._baseline.names
        for row in self._baseline.calls:
            if (Place(names.name(row["run"]), row["turn"], row["index"])) == call.place:
                return row if row["tool"] == call.row["tool"] else None
        return None

    def _rows(self, seen: Seen) -> Iterator[Breach]:
        unknown = any(row["state"] == "outcome_unknown" for row in seen.calls)
        for table, rows in seen.counts.items():
            expected = self._baseline.counts.get(table, 0)
            if rows > expected or (rows < expected and not unknown):
                text = f"{table} has {rows} rows; without a crash it has {expected}"
                yield self._own(seen, "rows exactly once", text)

    def _ledgers(self, seen: Seen) -> Iterator[Breach]:
        unknown = any(row["state"] == "outcome_unknown" for row in seen.calls)
        for name, rows in seen.ledgers.items():
            expected = len(self._baseline.ledgers.get(name, []))
            if len(rows) > expected or (len(rows) < expected and not unknown):
                text = f"the ledger of {name} has {len(rows)} rows; without a crash {expected}"
                yield self._own(seen, "effects by policy: the ledger outside", text)

    def _calls(self, seen: Seen) -> Iterator[Calls]:
        for row in seen.calls:
            place = Place(seen.names.name(row["run"]), row["turn"], row["index"])
            sent: dict[Attempt, list[Request]] = {}
            for request in seen.requests:
                caller = request.caller
                if caller is not None and caller.part == "body" and caller.place == place:
                    sent.setdefault((caller.attempt, caller.pid), []).append(request)
            yield Calls(row, place, sent)

    def _counts(self, request: Request) -> bool:
        return request.was_sent and self._may_change(request)

    def _may_change(self, request: Request) -> bool:
        return request.may_change and f"{request.method} {request.path}" not in self._scenario.reads

    def _own(self, seen: Seen, invariant: str, text: str) -> Breach:
        """Blames the tool at whose window the worker was struck, if it was one's."""
        place = None if seen.target is None else seen.target.window.place
        for row in seen.calls:
            if Place(seen.names.name(row["run"]), row["turn"], row["index"]) == place:
                return self._blame(row, invariant, text)
        return Breach(invariant, *PERDURE, text)

    def _blame(self, row: Json, invariant: str, text: str, hook: str | None = None) -> Breach:
        name = row["tool"]
        tool = self._agent.tool(name)
        if tool is None:
            return Breach(invariant, name, "unknown", text)
        if hook is not None and (function := getattr(tool, hook)) is not None:
            return Breach(invariant, f"{name} ({hook})", _source(function), text)
        return Breach(invariant, name, tool.source, text)


PERDURE = ("Perdure", "")
# What a transition says to an execution that has been succeeded by another one.
REFUSALS = ("fenced", "late", "over", "moved", "dead")


def _less(some: list[Request], others: list[Request]) -> list[Request]:
    """Those of `some` that have no twin among `others`."""
    left = [_promise(each) for each in others]
    lonely = []
    for each in some:
        if _promise(each) in left:
            left.remove(_promise(each))
        else:
            lonely.append(each)
    return lonely


def _promise(request: Request) -> tuple[str, str, str | bytes]:
    """One key, one effect; without a key it is the bytes that tell."""
    return request.method, request.path, request.key or request.body


def _differ(was: Request, is_now: Request) -> str:
    if (was.method, was.path) != (is_now.method, is_now.path):
        return f"{was.method} {was.path} became {is_now.method} {is_now.path}"
    if was.key != is_now.key:
        return f"{was.method} {was.path} under key {was.key}, then {is_now.key}"
    return f"{was.method} {was.path} without a key and with another body"


def _identity(request: Request) -> tuple[str, str, bytes]:
    return request.method, request.path, request.body


def _source(function: Callable[..., Any]) -> str:
    code = getattr(function, "__code__", None)
    return "unknown" if code is None else f"{code.co_filename}:{code.co_firstlineno}"
