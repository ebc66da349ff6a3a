"""What is sent again, how often, and what never is."""

from collections.abc import Callable
from itertools import repeat
from typing import Any

import pytest

from app.client import decisions, fleet, runs
from app.client.errors import (
    DatabaseUnavailable,
    Problem,
    QueueFull,
    RunEnded,
    Uncertain,
    Unreachable,
)
from app.client.wire import Flow
from tests.unit.client.service import BROKEN, REFUSED, RUN, Said, Service, problem, say

AWAY = problem(503, "database-unavailable", retry_after="2")
BUG = problem(500, "internal")
MESSAGE = {
    "id": "msg_1",
    "run": "run_1",
    "text": "Hi",
    "state": "queued",
    "created_at": RUN["created_at"],
}
ONCE: list[Callable[[], Flow[Any]]] = [
    lambda: runs.send("run_1", "Hi"),
    lambda: runs.resume("run_1"),
    lambda: fleet.redeliver("whd_1"),
]
MANY: list[Callable[[], Flow[Any]]] = [
    lambda: runs.submit("desk", "Hi"),
    lambda: runs.fork("run_1", 1),
    lambda: runs.cancel("run_1"),
    lambda: runs.get("run_1"),
]


@pytest.mark.parametrize("lost", [REFUSED, BROKEN, AWAY, say(502), say(504)])
@pytest.mark.parametrize("operation", MANY)
def test_what_does_no_more_when_sent_twice_is_sent_again(
    operation: Callable[[], Flow[Any]], lost: Said
) -> None:
    service = Service([lost, lost, say(202, RUN)])

    assert service.carry_out(operation()).id == "run_1"

    assert len(service.sent) == 3
    assert service.sent[0] == service.sent[2]


ODD: list[Any] = [
    {"errors": [{"code": 1, "message": "No."}, "No.", None]},
    {"errors": {"field": "a"}},
    {"errors": "No.", "hint": ["No."]},
    {"errors": None, "type": None, "detail": None},
    ["No."],
]


@pytest.mark.parametrize("body", ODD)
def test_a_gateway_with_problems_of_its_own_is_asked_again_and_then_told(body: object) -> None:
    service = Service([say(503, body), say(202, RUN)])
    assert service.carry_out(runs.get("run_1")).id == "run_1"

    service = Service([say(503, body)])
    with pytest.raises(Problem) as told:
        service.carry_out(runs.get("run_1"), patience=0)
    assert (told.value.errors, told.value.hint) == ((), None)
    assert str(told.value)


@pytest.mark.parametrize("operation", ONCE)
def test_what_could_be_done_twice_is_not_sent_again(operation: Callable[[], Flow[Any]]) -> None:
    service = Service([BROKEN])
    with pytest.raises(Uncertain, match="may have been done"):
        service.carry_out(operation())
    assert len(service.sent) == 1


@pytest.mark.parametrize(
    ("reply", "status"),
    [(AWAY, 503), (BUG, 500), (say(502), 502), (say(503, []), 503), (say(504), 504)],
)
@pytest.mark.parametrize("operation", ONCE)
def test_an_answer_that_leaves_open_what_was_done_is_no_refusal(
    operation: Callable[[], Flow[Any]], reply: Said, status: int
) -> None:
    service = Service([reply])
    with pytest.raises(Uncertain, match=f"is {status}; it may have been done") as raised:
        service.carry_out(operation())
    assert len(service.sent) == 1
    assert isinstance(raised.value.__cause__, Problem)
    assert raised.value.__cause__.status == status


@pytest.mark.parametrize("unread", [REFUSED, problem(429, "rate-limited")])
def test_what_surely_was_not_read_is_sent_again_whatever_it_is(unread: Said) -> None:
    service = Service([unread, say(202, MESSAGE)])

    assert service.carry_out(runs.send("run_1", "Hi")).id == "msg_1"


def test_each_submission_has_a_key_of_its_own_and_keeps_it() -> None:
    service = Service([BROKEN, AWAY, say(200, RUN)])
    service.carry_out(runs.submit("desk", "Hi"))
    service.replies = [say(202, RUN)]
    service.carry_out(runs.submit("desk", "Hi"))

    keys = [request.headers["idempotency-key"] for request in service.sent]
    assert keys[0] == keys[1] == keys[2]
    assert keys[3] != keys[0]
    assert len(keys[0]) >= 32


def test_the_service_says_when_to_come_back() -> None:
    service = Service([problem(429, "queue-full", retry_after="7"), say(202, RUN)])

    service.carry_out(runs.submit("desk", "Hi"))

    assert service.paused == [7.0]


def test_patience_ends() -> None:
    service = Service(repeat(REFUSED))
    with pytest.raises(Unreachable) as raised:
        service.carry_out(runs.get("run_1"), patience=30)
    assert raised.value.__cause__ is REFUSED.error
    assert not isinstance(raised.value, Uncertain)
    assert 20 < service.clock() <= 30
    assert len(service.sent) < 30

    service = Service(repeat(problem(429, "queue-full", retry_after="8")))
    with pytest.raises(QueueFull):
        service.carry_out(runs.submit("desk", "Hi"), patience=30)
    assert service.paused == [8.0] * 3


def test_a_submission_that_may_have_arrived_is_told_as_that() -> None:
    with pytest.raises(Uncertain):
        Service([BROKEN, *[REFUSED] * 500]).carry_out(runs.submit("desk", "Hi"))
    with pytest.raises(Uncertain) as raised:
        Service(repeat(AWAY)).carry_out(runs.submit("desk", "Hi"))
    assert isinstance(raised.value.__cause__, DatabaseUnavailable)

    with pytest.raises(DatabaseUnavailable):
        Service(repeat(AWAY)).carry_out(runs.get("run_1"))


def test_a_refusal_is_not_sent_again() -> None:
    for status in (400, 401, 404, 409, 410, 422, 500):
        service = Service([say(status, {})])
        with pytest.raises(Exception, match="answered with"):
            service.carry_out(runs.submit("desk", "Hi"))


def test_a_cancel_whose_answer_was_lost_is_not_told_that_the_run_has_ended() -> None:
    ended = problem(409, "run-ended")
    cancelled = RUN | {"status": "cancelled"}

    lost = Service([BROKEN, ended, say(200, cancelled)])
    assert lost.carry_out(runs.cancel("run_1")).status == "cancelled"

    with pytest.raises(RunEnded):
        Service([ended]).carry_out(runs.cancel("run_1"))
    with pytest.raises(RunEnded):
        Service([BROKEN, ended, say(200, RUN)]).carry_out(runs.cancel("run_1"))


def test_a_decision_is_bound_to_the_arguments_that_were_shown() -> None:
    wait = {
        "id": "wait_1",
        "run": "run_1",
        "kind": "approval",
        "state": "open",
        "arguments_hash": "h1",
        "created_at": RUN["created_at"],
    }
    service = Service([say(200, wait), BROKEN, say(200, wait | {"state": "resolved"})])

    shown = service.carry_out(decisions.get_wait("wait_1"))
    assert service.carry_out(decisions.allow(shown), 60).state == "resolved"

    assert service.sent[1].body == {"decision": "allow", "arguments_hash": "h1"}
    assert service.sent[1].path == "/v1/waits/wait_1/resolve"


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_an_id_that_would_lead_elsewhere_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is no id"):
        Service([]).carry_out(runs.get(name))


def test_an_id_stays_one_part_of_its_path() -> None:
    service = Service([say(404, {})])
    with pytest.raises(Exception, match="404"):
        service.carry_out(runs.get("../waits?x#y"))
    assert service.sent[0].path == "/v1/runs/..%2Fwaits%3Fx%23y"


def test_a_proxy_that_cuts_what_is_held_does_not_end_the_waiting() -> None:
    running = say(202, RUN | {"status": "running"})
    service = Service([*[say(504), running] * 9, say(200, RUN)])

    assert service.carry_out(runs.wait("run_1"), patience=0).status == "succeeded"
    assert ["prefer" in request.headers for request in service.sent] == [*[True, False] * 9, True]


def test_a_proxy_that_reaches_no_service_ends_the_waiting() -> None:
    service = Service([say(504)] * 99)

    with pytest.raises(Problem):
        service.carry_out(runs.wait("run_1"), patience=30)
    assert 10 < sum(service.paused) <= 30


def test_waiting_for_the_end_goes_on_while_a_person_is_asked() -> None:
    wait = {"id": "wait_1", "run": "run_1", "kind": "approval"}
    asking = say(202, RUN | {"status": "waiting", "waiting_for": [wait]})

    service = Service([asking, asking, say(200, RUN)])
    assert service.carry_out(runs.wait("run_1")).status == "succeeded"
    assert service.paused == [runs.LOOK_SECONDS] * 2
    assert service.sent[0].headers == {"prefer": f"wait={runs.HOLD_SECONDS}"}
    assert service.sent[0].seconds > runs.HOLD_SECONDS

    service = Service([asking])
    assert service.carry_out(runs.wait("run_1", until="asked")).status == "waiting"
