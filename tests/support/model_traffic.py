"""Records what reaches the scripted model; holds it at the gates `llm:arrive` and `llm:<k>`."""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tests.support.gates import Disconnected, Gates


@dataclass
class ModelRequest:
    """One request as it came over the wire, and the status that answered it (None: it died)."""

    raw: bytes
    body: dict[str, Any]
    headers: dict[str, str]
    status: int | None = None
    arrived_at: float = field(default_factory=time.monotonic)
    answered_at: float | None = None

    @property
    def step(self) -> int:
        """How many answers of the model the transcript holds already."""
        return sum(message["role"] == "assistant" for message in self.body["messages"])

    @property
    def transcript(self) -> str:
        """The messages alone as text; the tools and their names stand beside them."""
        return json.dumps(self.body["messages"], ensure_ascii=False)

    @property
    def texts(self) -> list[str]:
        """Every text of the user's side, tool results included, in order."""
        blocks = [
            block for m in self.body["messages"] if m["role"] == "user" for block in _blocks(m)
        ]
        return [text for block in blocks for text in _texts(block)]

    @property
    def tool_results(self) -> dict[str, dict[str, Any]]:
        """The result blocks of the whole transcript by the id of their call."""
        return {
            block["tool_use_id"]: block
            for message in self.body["messages"]
            for block in _blocks(message)
            if block["type"] == "tool_result"
        }

    @property
    def last_answer(self) -> list[dict[str, Any]]:
        """The blocks of the model's newest answer in the transcript."""
        answers = [m for m in self.body["messages"] if m["role"] == "assistant"]
        return _blocks(answers[-1]) if answers else []

    @property
    def last_results(self) -> list[dict[str, Any]]:
        """The result blocks of the last message, in order."""
        last = _blocks(self.body["messages"][-1])
        return [block for block in last if block["type"] == "tool_result"]


@dataclass
class Pace:
    """What the model allows: a call each `every` seconds. Others are told when to come back."""

    every: float
    retry_after: int
    free_at: float = 0.0

    def allows(self, at: float) -> bool:
        if at < self.free_at:
            return False
        self.free_at = at + self.every
        return True

    def refusal(self) -> JSONResponse:
        error = {"type": "rate_limit_error", "message": "Too many requests."}
        headers = {"retry-after": str(self.retry_after)}
        return JSONResponse({"type": "error", "error": error}, 429, headers)

    def ignored(self, requests: Sequence[ModelRequest], on_their_way: float) -> list[float]:
        """How long after a refusal requests came that should not have; those sent within
        `on_their_way` seconds of it may have been under way."""
        refused = [r.answered_at for r in requests if r.status == 429 and r.answered_at]
        since = [request.arrived_at - at for request in requests for at in refused]
        return [seconds for seconds in since if on_their_way < seconds < self.retry_after]


@dataclass
class ModelTraffic:
    """An ASGI wrapper round the model; `requests` are in order of arrival."""

    model: ASGIApp
    gates: Gates
    requests: list[ModelRequest] = field(default_factory=list)
    pace: Pace | None = None

    def about(self, mark: str) -> list[ModelRequest]:
        """The requests whose transcript mentions `mark`: those of one run among several."""
        return [request for request in self.requests if mark in request.transcript]

    def steps(self, mark: str = "") -> list[int]:
        return [request.step for request in self.about(mark)]

    def statuses(self, mark: str = "") -> list[int | None]:
        return [request.status for request in self.about(mark)]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        raw = await _read(receive)
        headers = {name.decode().lower(): value.decode() for name, value in scope["headers"]}
        request = ModelRequest(raw, json.loads(raw), headers)
        self.requests.append(request)
        try:
            await self.gates.pass_through("llm:arrive", receive)
            await self.gates.pass_through(f"llm:{request.step}", receive)
        except Disconnected:
            return
        answer = self.model
        if self.pace is not None and not self.pace.allows(request.arrived_at):
            answer = self.pace.refusal()
        await answer(scope, _replay(raw, receive), _recording(request, send))


def _recording(request: ModelRequest, send: Send) -> Send:
    async def record(message: Message) -> None:
        if message["type"] == "http.response.start":
            request.status = message["status"]
            request.answered_at = time.monotonic()
        await send(message)

    return record


def _replay(raw: bytes, receive: Receive) -> Receive:
    pending = [raw]

    async def replay() -> Message:
        if pending:
            return {"type": "http.request", "body": pending.pop(), "more_body": False}
        return await receive()

    return replay


async def _read(receive: Receive) -> bytes:
    chunks, more = [], True
    while more:
        message = await receive()
        chunks.append(message.get("body", b""))
        more = message.get("more_body", False)
    return b"".join(chunks)


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _texts(block: dict[str, Any]) -> list[str]:
    match block["type"]:
        case "text":
            return [block["text"]]
        case "tool_result":
            content = block.get("content", "")
            parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
            return [part["text"] for part in parts if part["type"] == "text"]
        case _:
            return []
