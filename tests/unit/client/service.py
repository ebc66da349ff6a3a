"""A service that answers as it is told, request by request, in no time at all."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import httpx

from app.client.wire import Answer, Flow, Lost, Pause, Policy, Reply, Request, insist

Json = dict[str, Any]
Said = Answer | Lost

RUN: Json = {
    "id": "run_1",
    "agent": "desk",
    "agent_version": "v",
    "session": "ses_1",
    "root": "run_1",
    "status": "succeeded",
    "turns": 1,
    "leg": 1,
    "attempt": 1,
    "usage": {
        "model_calls": 1,
        "repaid_model_calls": 0,
        "input_tokens": 1,
        "output_tokens": 1,
        "cache_read_tokens": 0,
        "cache_write_tokens": 0,
        "cost_usd": "0.0010",
    },
    "limits": {"turns": 50},
    "limits_left": {"turns": 49},
    "trace_id": "t",
    "created_at": "2026-11-30T00:00:00Z",
}
REFUSED = Lost(httpx.ConnectError("refused"), unsent=True)
BROKEN = Lost(httpx.ReadError("reset"), unsent=False)


def say(status: int, body: object = None, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status, named, json.dumps(body).encode())


def problem(status: int, code: str, **headers: str) -> Answer:
    return say(status, {"type": f"/problems/{code}", "detail": "No."}, **headers)


@dataclass
class Service:
    """`sent` is what arrived; `paused` for how long a client waited in between, in seconds."""

    replies: Iterable[Said]
    sent: list[Request] = field(default_factory=list)
    paused: list[float] = field(default_factory=list)

    def clock(self) -> float:
        return sum(self.paused)

    def carry_out(self, flow: Flow[Any], patience: float = 60.0) -> Any:  # noqa: ANN401
        replies = self.replies = iter(self.replies)
        flow = insist(flow, Policy(patience, clock=self.clock))
        reply: Reply = None
        while True:
            try:
                step = flow.send(reply)
            except StopIteration as end:
                return end.value
            if isinstance(step, Pause):
                self.paused.append(step.seconds)
                reply = None
            else:
                self.sent.append(step)
                reply = next(replies)
