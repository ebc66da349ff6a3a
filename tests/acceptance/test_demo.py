"""`perdure demo` as a person runs it, and that its own checks can fail."""

import dataclasses
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from app.cli.demo.evidence import Evidence, check_refund, check_wire, list_steps

ROOT = Path(__file__).parents[2]
# Of another deployment: the demo must not touch it.
FOREIGN = {
    "PERDURE_DATABASE_URL": "postgresql://nobody@127.0.0.1:9/nothing",
    "PERDURE_PORT": "1",
    "ANTHROPIC_API_KEY": "a real key",
    "HTTP_PROXY": "http://127.0.0.1:9",
    "NO_COLOR": "",
}
PID = re.compile(r"(?:pid|starts:) (\d+)$")
FIRST, SECOND = "host-1-aaaa", "host-2-bbbb"
KEY = "run_1/2/0"


class Demo:
    """A demo under way; notes each process that it tells of while that is alive."""

    def __init__(self, directory: Path) -> None:
        self.output = ""
        self.processes: list[psutil.Process] = []
        self.started = subprocess.Popen(
            [sys.executable, "-P", "-m", "app.cli", "demo"],
            cwd=directory,
            env=os.environ | FOREIGN | {"PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def read(self, until: str | None = None) -> None:
        """Up to the first line that begins with `until`, else to the end."""
        assert self.started.stdout is not None
        for line in self.started.stdout:
            self.output += line
            if told := PID.search(line.rstrip()):
                self.processes.append(psutil.Process(int(told[1])))
            if until is not None and line.strip().startswith(until):
                return
        assert until is None, self.output

    def end(self) -> int:
        self.read()
        return self.started.wait()

    def left(self) -> list[psutil.Process]:
        _, alive = psutil.wait_procs(self.processes, timeout=20)
        return alive


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[], Demo]]:
    demos: list[Demo] = []

    def start() -> Demo:
        demos.append(Demo(tmp_path))
        return demos[-1]

    yield start
    for demo in demos:
        if demo.started.poll() is None:
            demo.started.send_signal(signal.SIGINT)
            demo.end()
        assert demo.started.stdout is not None
        demo.started.stdout.close()


@pytest.mark.timeout(600)
def test_the_demo_ends_by_itself_well_also_after_one_that_was_killed(
    start: Callable[[], Demo], tmp_path: Path
) -> None:
    killed = start()
    killed.read(until="202 run_")
    killed.started.kill()
    killed.end()

    demo = start()
    assert demo.end() == 0, demo.output
    assert killed.left() == demo.left() == []
    assert demo.output.count("\n  kill -9 ") == 2
    assert demo.output.count("call.outcome_unknown") == 1
    assert "FAIL" not in demo.output
    assert "\x1b" not in demo.output
    assert not os.path.lexists(tmp_path / ".perdure" / "demo")


@pytest.mark.timeout(300)
def test_an_interrupted_demo_leaves_nothing_running(
    start: Callable[[], Demo], tmp_path: Path
) -> None:
    demo = start()
    demo.read(until="kill -9")
    demo.started.send_signal(signal.SIGINT)
    assert demo.end() == 130, demo.output
    assert len(demo.processes) >= 5
    assert demo.left() == []
    assert not os.path.lexists(tmp_path / ".perdure" / "demo")


def attempt(worker: str, outcome: str) -> dict[str, Any]:
    return {"worker": worker, "outcome": outcome}


def seen(payment: dict[str, Any], answer: str, requests: int) -> Evidence:
    """An act as it should be, with two turns, of which the second follows the payment."""
    call = {"turn": 1, "tool": "pay", "idempotency_key": KEY, **payment}
    turns = [
        {"number": 1, "attempts": 1, "history": [attempt(FIRST, "answered")]},
        {"number": 2, "attempts": 1, "history": [attempt(SECOND, "answered")]},
    ]
    usage = {"model_calls": 2, "repaid_model_calls": 0}
    taken_over = {"from_worker": FIRST, "worker": SECOND}
    return Evidence(
        run={"status": "succeeded", "usage": usage, "output": {"text": answer}},
        turns=turns,
        calls=[call],
        events=[{"type": "run.taken_over", "data": taken_over}],
        ledger=[{"key": KEY, "calls": requests}],
        model_requests=2,
        sent_again=False,
        killed=FIRST,
        successor=SECOND,
    )


AGAIN = [attempt(FIRST, "interrupted"), attempt(SECOND, "succeeded")]
REFUNDED = seen({"state": "succeeded", "attempts": 2, "history": AGAIN}, "refunded", 2)
UNKNOWN = seen(
    {"state": "outcome_unknown", "attempts": 1, "history": AGAIN[:1]}, "it is unknown", 1
)
PAID_TWICE = {"key": KEY, "calls": 1}
UNTOLD = UNKNOWN.run | {"output": {"text": "refunded"}}
REPAID = REFUNDED.run | {"usage": {"model_calls": 2, "repaid_model_calls": 1}}
RAN_AGAIN = [REFUNDED.turns[0] | {"attempts": 2}, REFUNDED.turns[1]]


def test_what_is_as_promised_passes_every_check() -> None:
    assert all(check.holds for check in check_refund(REFUNDED))
    assert all(check.holds for check in check_wire(UNKNOWN))


@pytest.mark.parametrize(
    "change",
    [
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
    ],
)
def test_a_broken_promise_about_the_refund_is_seen(change: dict[str, Any]) -> None:
    checks = check_refund(dataclasses.replace(REFUNDED, **change))
    assert not all(check.holds for check in checks)


@pytest.mark.parametrize(
    "change",
    [
        {"ledger": [*UNKNOWN.ledger, PAID_TWICE]},
        {"sent_again": True},
        {"calls": [UNKNOWN.payment | {"state": "succeeded"}]},
        {"calls": [UNKNOWN.payment | {"attempts": 2}]},
        {"run": UNTOLD},
        {"model_requests": 3},
    ],
)
def test_a_broken_promise_about_the_transfer_is_seen(change: dict[str, Any]) -> None:
    checks = check_wire(dataclasses.replace(UNKNOWN, **change))
    assert not all(check.holds for check in checks)


def test_the_table_tells_what_each_worker_did() -> None:
    refunded = [(step.first, step.second) for step in list_steps(REFUNDED)]
    unknown = [(step.first, step.second) for step in list_steps(UNKNOWN)]
    assert refunded == [
        ("ran", "from the journal"),
        ("started, killed", "ran again, same key"),
        ("", "ran"),
    ]
    assert unknown[1] == ("started, killed", "not run again")
