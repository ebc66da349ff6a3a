"""The last act: nothing of the service is alive between a question and its two answers."""

import threading
from concurrent.futures import ThreadPoolExecutor

import httpx

from app.cli.demo.evidence import Answer, Approval, Check, Json, check_approval
from app.cli.demo.screen import Screen
from app.cli.demo.stage import Broken, Stage
from app.cli.demo.watch import count_model_requests, gather, list_payments, submit

TITLE = "3. A refund that a person must allow"
PROMISE = "Its author wants a person to allow more than 1000.00."
INPUT = "Refund order 1005"
ORDER = "1005"
PEOPLE = ("mara", "jonas")


def play(stage: Stage, screen: Screen) -> list[Check]:
    screen.open(TITLE, PROMISE)
    requests = count_model_requests(stage)
    follower = submit(stage, screen, INPUT)
    screen.tell("The agent is at work")
    stage.until(follower.has_parked, "the run waits for a person")
    asked, worker, before = _list_waits(stage, follower.run), stage.worker_id(), stage.pids()
    _kill_everything(stage, screen)
    found, paid_early = _list_waits(stage, follower.run), list_payments(stage, ORDER)
    if not found:
        raise Broken("Nobody is asked any more.")
    screen.ask(found[0])
    screen.decide(found[0]["id"])
    answers = _answer_at_once(stage, found[0]["id"])
    screen.answered(answers)
    screen.tell("The agent is at work")
    stage.until(follower.has_ended, "the run has ended")
    seen = Approval(
        **gather(stage, follower, ORDER, requests),
        killed=worker or "",
        before=before,
        after=stage.pids(),
        asked=asked,
        found=found,
        answers=answers,
        paid_early=paid_early,
    )
    screen.close_act(seen)
    return check_approval(seen)


def _list_waits(stage: Stage, run: str) -> list[Json]:
    waits: list[Json] = stage.get("/v1/waits", run=run)["data"]
    return waits


def _kill_everything(stage: Stage, screen: Screen) -> None:
    screen.act("The run waits as rows, held by no process. Database, API and worker are killed:")
    pids = " ".join(map(str, stage.pids().values()))
    stage.kill_service()
    screen.act(f"kill -9 {pids}", "bold red")
    screen.tell("Database, API and a worker start again")
    stage.start_service()
    screen.act("They are started again:")
    screen.list_parts(stage.service())


def _answer_at_once(stage: Stage, wait: str) -> list[Answer]:
    """Two clients, connected before and let go by one barrier."""
    line = threading.Barrier(len(PEOPLE))

    def resolve(person: str, client: httpx.Client) -> Answer:
        said = {"decision": "allow", "on_behalf_of": person}
        line.wait()
        response = client.post(f"/v1/waits/{wait}/resolve", json=said)
        return Answer(person, response.status_code, response.json())

    clients = [stage.connect() for _ in PEOPLE]
    try:
        for client in clients:
            client.get("/health/live")
        with ThreadPoolExecutor(len(PEOPLE)) as pool:
            return list(pool.map(resolve, PEOPLE, clients))
    finally:
        for client in clients:
            client.close()
