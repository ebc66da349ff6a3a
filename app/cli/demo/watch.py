"""What a run tells of itself, and what the model and the payment provider saw."""

from app.cli.demo.evidence import Json
from app.cli.demo.screen import Screen
from app.cli.demo.stage import Broken, Stage, answer
from app.domain.states import ENDED

AGENT = "refund-desk"


class Follower:
    """Shows the events of one run as they come in."""

    def __init__(self, stage: Stage, screen: Screen, run: str) -> None:
        self.run = run
        self.events: list[Json] = []
        self._stage = stage
        self._screen = screen

    def look(self) -> None:
        after = self.events[-1]["seq"] if self.events else 0
        path = f"/v1/runs/{self.run}/events"
        for event in self._stage.get(path, after=after, limit=200)["data"]:
            self.events.append(event)
            self._screen.show(event, self.events[0])

    def has_ended(self) -> bool:
        self.look()
        return any(event["type"].removeprefix("run.") in ENDED for event in self.events)

    def has_parked(self) -> bool:
        if self.has_ended():
            raise Broken("The run ended before it came to wait.")
        return any(event["type"] == "run.waiting" for event in self.events)


def submit(stage: Stage, screen: Screen, text: str) -> Follower:
    run = answer(stage.api.post("/v1/runs", json={"agent": AGENT, "input": text}))["id"]
    screen.submitted(AGENT, text, run)
    return Follower(stage, screen, run)


def gather(stage: Stage, follower: Follower, order: str, requests: int) -> Json:
    """What is evidence in every act; `requests`: how many the model had had before."""
    path = f"/v1/runs/{follower.run}"
    return {
        "run": stage.get(path),
        "turns": stage.get(f"{path}/turns")["data"],
        "calls": stage.get(f"{path}/calls")["data"],
        "events": follower.events,
        "ledger": list_payments(stage, order),
        "model_requests": count_model_requests(stage) - requests - 1,
        "successor": stage.worker_id() or "",
    }


def list_payments(stage: Stage, order: str) -> list[Json]:
    """The provider's ledger, as far as it is about one order."""
    rows = answer(stage.payments.get("/ledger"))["rows"]
    return [row for row in rows if row["order_id"] == order]


def count_model_requests(stage: Stage) -> int:
    """The model numbers the requests it gets, this one too, which it refuses."""
    refused = stage.model.post("/v1/messages", json={})
    return int(refused.headers["request-id"].removeprefix("req_"))
