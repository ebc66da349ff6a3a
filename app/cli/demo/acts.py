"""The first two acts: the same crash at the worst moment, under two promises."""

from dataclasses import dataclass

from app.cli.demo.evidence import Check, Checks, Json, Takeover, check_refund, check_wire
from app.cli.demo.screen import Screen
from app.cli.demo.stage import Broken, Stage, answer
from app.cli.demo.watch import Follower, count_model_requests, gather, submit


@dataclass(frozen=True)
class Act:
    title: str
    promise: str
    input: str
    order: str
    path: str
    may_be_sent_again: bool
    check: Checks


REFUND = Act(
    title="1. A refund whose tool is `idempotent`",
    promise="Its author promises: the same key has the same effect, once.",
    input="Refund order 1001",
    order="1001",
    path="/refunds",
    may_be_sent_again=True,
    check=check_refund,
)
WIRE = Act(
    title="2. A wire transfer whose tool is `at_most_once`",
    promise="Its author promises nothing: the bank takes no key and cannot be asked.",
    input="Refund order 1002 by wire transfer",
    order="1002",
    path="/transfers",
    may_be_sent_again=False,
    check=check_wire,
)


def play(act: Act, stage: Stage, screen: Screen) -> list[Check]:
    screen.open(act.title, act.promise)
    requests = count_model_requests(stage)
    _hold(stage, "after", act.path)
    follower = submit(stage, screen, act.input)
    killed = _kill_at_worst_moment(act, stage, screen, follower)
    successor = stage.start_worker()
    screen.act(f"A new worker starts: {successor.pid}")
    screen.tell(f"Worker {successor.pid} gets ready")
    stage.until(follower.has_ended, "the run has ended")
    seen = Takeover(
        **gather(stage, follower, act.order, requests),
        sent_again=bool(_held(stage)),
        killed=killed,
    )
    screen.close_act(seen)
    return act.check(seen)


def _kill_at_worst_moment(act: Act, stage: Stage, screen: Screen, follower: Follower) -> str:
    """The money has moved, and only the provider knows. Answers who was killed."""

    def is_held() -> bool:
        if follower.has_ended():
            raise Broken("The run ended before it came to pay.")
        return bool(_held(stage))

    screen.tell("The agent is at work")
    stage.until(is_held, f"the provider holds {act.path}")
    follower.look()
    worker, pid = stage.worker_id(), stage.worker.pid
    screen.act("The provider has booked it, and holds its answer back.")
    stage.kill_worker()
    screen.act(f"kill -9 {pid}", "bold red")
    answer(stage.payments.post("/release"))
    if not act.may_be_sent_again:
        _hold(stage, "before", act.path)  # a trap: what is sent again is caught in it
    return worker or ""


def _hold(stage: Stage, where: str, path: str) -> None:
    answer(stage.payments.post("/hold", json={"where": where, "path": path}))


def _held(stage: Stage) -> list[Json]:
    held: list[Json] = answer(stage.payments.get("/held", params={"timeout": 0}))["held"]
    return held
