"""What `perdure verify` calls broken, and what it lets pass."""

from collections.abc import Mapping
from typing import Any

import pytest

from app.cli.verify.judge import Judge
from app.cli.verify.model import Asked
from app.cli.verify.recorder import Request
from app.cli.verify.scenario import RunPart, Scenario
from app.cli.verify.seen import Seen
from app.cli.verify.statements import Place
from app.cli.verify.testimony import Caller
from app.cli.verify.trap import Target, Window
from tests.support.faults import sound, tools

SCENARIO = Scenario(runs=[RunPart(input="Go.")], reads=["POST /search"])
TARGET = Target(Window("commit", "worker", "start_call 1/0", 1, Place("r1", 1, 0)), "after", "kill")
TYPES = {"outcome_unknown": "call.outcome_unknown"}


def call(tool: str, state: str = "succeeded", *outcomes: str, **row: Any) -> dict[str, Any]:
    ended = outcomes or (state,)
    policies = {each.name: each.replay for each in (*sound.desk.tools, *tools.desk.tools)}
    return {
        "id": "call_1_1_0",
        "run": "run_1",
        "turn": 1,
        "index": 0,
        "tool": tool,
        "state": state,
        "replay": policies[tool],
        "result": None,
        "settled": None,
        "compensates": None,
        "origin": None,
        "history": [{"attempt": n, "outcome": how} for n, how in enumerate(ended, 1)],
    } | row


def sent(
    attempt: int, key: str | None = None, body: bytes = b"{}", status: int | None = 200, **how: Any
) -> Request:
    caller = Caller(how.pop("part", "body"), "", Place("r1", 1, 0), attempt, pid=1)
    headers = {} if key is None else {"idempotency-key": key}
    method, path = how.pop("method", "POST"), how.pop("path", "/orders")
    return Request(method, f"http://shop{path}", path, headers, body, caller, True, status)


def seen(*requests: Request, calls: list[dict[str, Any]] | None = None, **fields: Any) -> Seen:
    found = Seen(fields.pop("target", TARGET), was_struck=True, ended=True)
    found.names.name("run_1")
    found.runs = [
        {"id": "run_1", "status": "succeeded", "reason": None, "error": None, "input": "Go."}
    ]
    found.calls = calls or []
    found.events = [
        {"type": f"call.{each['state']}", "data": {"call": each["id"]}} for each in found.calls
    ]
    found.requests = list(requests)
    for name, value in fields.items():
        setattr(found, name, value)
    return found


def judge(one: Seen, before: Seen | None = None) -> list[tuple[str, str]]:
    agent = tools.desk if any(tools.desk.tool(c["tool"]) for c in one.calls) else sound.desk
    baseline = before or seen(calls=[{**each, "state": "succeeded"} for each in one.calls])
    return [(b.invariant, b.tool) for b in Judge(agent, SCENARIO, baseline).judge(one)]


IDEMPOTENT, ONCE = "effects by policy: idempotent", "effects by policy: at_most_once"


def test_the_same_key_twice_is_what_idempotent_means() -> None:
    one = seen(sent(1, "k"), sent(2, "k"), calls=[call("buy", "succeeded", "interrupted", "ok")])
    assert judge(one) == []


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (sent(1, "k"), sent(2, "l")),
        (sent(1, "k"), sent(2)),
        (sent(1, body=b"1"), sent(2, body=b"2")),
        (sent(1, "k"), sent(2, "k", path="/other")),
    ],
)
def test_another_attempt_of_an_idempotent_call_says_the_same(
    first: Request, second: Request
) -> None:
    assert judge(seen(first, second, calls=[call("buy")])) == [(IDEMPOTENT, "buy")]


def test_without_a_key_the_same_bytes_do() -> None:
    assert judge(seen(sent(1), sent(2), calls=[call("buy")])) == []


def test_an_unknown_outcome_is_honest() -> None:
    calls = [call("buy_once", "outcome_unknown", "interrupted")]
    assert judge(seen(sent(1), calls=calls)) == []


def test_what_is_sent_at_most_once_is_not_sent_twice() -> None:
    one = seen(sent(1), sent(2), calls=[call("buy_once", "succeeded", "interrupted", "succeeded")])
    assert judge(one) == [(ONCE, "buy_once")]


def test_a_crash_before_the_intent_gives_the_same_attempt_again() -> None:
    assert judge(seen(sent(1), sent(1), calls=[call("buy_once")])) == [(ONCE, "buy_once")]


def test_a_request_that_never_got_there_may_be_sent_again() -> None:
    first = sent(1, status=None)
    first.was_sent = False
    calls = [call("buy_surely", "succeeded", "did_not_happen", "succeeded")]
    assert judge(seen(first, sent(2), calls=calls)) == []


def test_a_hook_that_denies_what_was_answered_is_to_blame() -> None:
    calls = [call("denies", "succeeded", "did_not_happen", "succeeded")]
    assert judge(seen(sent(1), sent(2), calls=calls)) == [(ONCE, "denies (reconcile)")]


def test_a_hook_that_claims_what_was_never_sent_is_to_blame() -> None:
    calls = [call("claims_anothers", "succeeded", "reconciled")]
    assert judge(seen(calls=calls)) == [(ONCE, "claims_anothers (reconcile)")]


def test_a_person_may_say_that_it_did_not_happen() -> None:
    settled = {"outcome": "did_not_happen"}
    calls = [call("buy_once", "succeeded", "interrupted", "succeeded", settled=settled)]
    assert judge(seen(sent(1), sent(2), calls=calls)) == []


@pytest.mark.parametrize(("method", "path"), [("GET", "/orders"), ("POST", "/search")])
def test_reads_may_be_repeated(method: str, path: str) -> None:
    both = [sent(n, method=method, path=path) for n in (1, 2)]
    assert judge(seen(*both, calls=[call("look")])) == []


@pytest.mark.parametrize("tool", ["look", "note"])
def test_no_other_policy_excuses_an_effect_done_twice(tool: str) -> None:
    policy = call(tool)["replay"]
    found = judge(seen(sent(1), sent(2), calls=[call(tool)]))
    assert found == [(f"effects by policy: {policy}", tool)]


def test_a_hook_may_ask_as_often_as_it_likes() -> None:
    both = [sent(n, part="ask_reconcile") for n in (1, 2)]
    assert judge(seen(*both, calls=[call("buy_once")])) == []


def test_a_call_that_fails_only_after_a_crash_is_broken() -> None:
    before = seen(calls=[call("buy")])
    found = judge(seen(calls=[call("buy", "failed")]), before)
    assert found == [("a call ends as it would without a crash", "buy")]


@pytest.mark.parametrize(
    ("fields", "invariant", "blamed"),
    [
        ({"counts": {"public.notes": 1}}, "rows exactly once", "buy"),
        ({"ledgers": {"SHOP": [{}]}}, "effects by policy: the ledger outside", "buy"),
        ({"breaches": ["a rule: run_1"]}, "a rule", "buy"),
        ({"late": ["calls"]}, "a dead worker changes nothing any more", "Perdure"),
        ({"late_answer": "ok"}, "a dead worker changes nothing any more", "Perdure"),
        ({"broken_answers": ["x"]}, "what was answered with 2xx is stored", "Perdure"),
        ({"paid_again": ["x"]}, "a finished model call is never paid for again", "Perdure"),
        ({"asked": [Asked(refused="no")]}, "valid pairing", "buy"),
        ({"events": []}, "events tell what happened, once", "buy"),
    ],
)
def test_each_invariant_can_be_broken(
    fields: Mapping[str, Any], invariant: str, blamed: str
) -> None:
    assert judge(seen(calls=[call("buy")], **fields)) == [(invariant, blamed)]


@pytest.mark.parametrize("answer", ["fenced", "late", "over", "moved", "dead", None])
def test_a_refusal_is_what_a_dead_worker_is_due(answer: str | None) -> None:
    assert judge(seen(calls=[call("buy")], late_answer=answer)) == []


def test_a_run_that_does_not_end_is_broken() -> None:
    one = seen(calls=[call("buy")])
    one.runs[0]["status"], one.ended = "running", False
    assert judge(one) == [("every run ends", "buy")]


def test_the_model_may_be_paid_once_more_for_what_the_crash_cut_off() -> None:
    paid = [Asked("Go.", 0, is_paid=True)] * 2
    assert judge(seen(calls=[call("buy")], asked=paid)) == []
    found = judge(seen(calls=[call("buy")], asked=[*paid, paid[0]]))
    assert found == [("a finished model call is never paid for again", "Perdure")]


def test_a_call_that_was_found_out_to_have_happened_needs_no_other_event() -> None:
    one = seen(sent(1), calls=[call("buy_once", settled={"outcome": "happened"})])
    one.events = [{"type": "call.reconciled", "data": {"call": "call_1_1_0"}}]
    assert judge(one) == []


def test_what_is_sent_twice_after_it_did_not_happen_is_sent_once_too_often() -> None:
    first = sent(1, status=None)
    first.was_sent = False
    calls = [call("buy_surely", "succeeded", "did_not_happen", "succeeded")]
    assert judge(seen(first, sent(2), sent(2), sent(2), calls=calls)) == [(ONCE, "buy_surely")]
