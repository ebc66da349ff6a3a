"""The scripted model as an ASGI app: checks a request, follows the script, answers on the wire."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, assert_never

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from app.domain.canonical import Json
from app.llm.prices import SCRIPTED
from app.llm.scripted.checks import check_body, check_headers, read_body
from app.llm.scripted.memory import Memory
from app.llm.scripted.refund_desk import run_refund_desk
from app.llm.scripted.refusal import Refused, build_error, render
from app.llm.scripted.scene import Scene, read_scene
from app.llm.scripted.script import (
    Answer,
    HttpError,
    RawEvents,
    Script,
    Step,
    pick_step,
    read_step,
)
from app.llm.scripted.wire import (
    build_events,
    build_message,
    count_usage,
    encode_event,
    encode_json,
)


@dataclass(frozen=True)
class RequestRecord:
    """A request as it came; `k` is the model step it asks for, `refused` why it got a 4xx."""

    body: dict[str, Any]
    headers: dict[str, str]
    k: int
    text: str
    refused: str | None = None


class Scripted:
    """`scripts` by model name, else `script`; a script in the user's text goes before both.

    `on_request` is awaited before the answer to each request that is not refused: a gate. The last
    `keep` requests are kept in `requests` (None: all). `name` is the model that answers say they
    come from, if not the one that was asked for.
    """

    def __init__(
        self,
        script: Script = run_refund_desk,
        *,
        scripts: Mapping[str, Script] | None = None,
        on_request: Callable[[RequestRecord], Awaitable[None]] | None = None,
        keep: int | None = None,
        name: str | None = None,
        accepts_foreign_thinking: bool = False,
    ) -> None:
        self.requests: list[RequestRecord] = []
        self._script = script
        self._scripts = dict(scripts or {})
        self._on_request = on_request
        self._keep = keep
        self._name = name
        self._memory = Memory(accepts_foreign=accepts_foreign_thinking)
        self._times: Counter[tuple[str, int]] = Counter()
        self._served = 0
        self._app = Starlette(
            routes=[Route("/v1/messages", self._serve, methods=["POST"])],
            exception_handlers={HTTPException: self._render_http, Refused: self._render_refusal},
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)

    async def _serve(self, request: Request) -> Response:
        raw = await request.body()
        self._served += 1
        headers = dict(request.headers)
        check_headers(headers)
        body = read_body(raw)
        try:
            check_body(body, headers["anthropic-version"])
            self._memory.check(body["messages"])
            scene = read_scene(body)
        except Refused as refusal:
            self._record(RequestRecord(body, headers, -1, "", refusal.message))
            raise
        record = RequestRecord(body, headers, scene.k, scene.text)
        self._record(record)
        if self._on_request is not None:
            await self._on_request(record)
        return self._answer(self._pick(scene, body), body, scene)

    def _record(self, record: RequestRecord) -> None:
        self.requests.append(record)
        if self._keep is not None:
            del self.requests[: len(self.requests) - self._keep]

    def _pick(self, scene: Scene, body: dict[str, Any]) -> Step:
        if scene.steps is not None:
            step = pick_step(scene.steps, scene.k)
        else:
            step = self._scripts.get(scene.model, self._script)(scene)
        if "times" in step:
            key = (scene.text, scene.k)
            step = step["times"][min(self._times[key], len(step["times"]) - 1)]
            self._times[key] += 1
        return read_step(step, scene, lambda n: f"toolu_{_digest(body['messages'], n)}")

    def _answer(self, step: Step, body: dict[str, Any], scene: Scene) -> Response:
        match step:
            case HttpError():
                return self._render_error(step)
            case RawEvents():
                ending = None if step.events[-1]["type"] in ("message_stop", "error") else "cut"
                return Wire([encode_event(e) for e in step.events], self._headers(), ending)
            case Answer():
                return self._render_answer(step, body, scene)
            case _:
                assert_never(step)

    def _render_error(self, step: HttpError) -> Response:
        if step.body is not None:
            return Response(step.body, step.status, {**self._headers(), **step.headers})
        return render(step.status, step.message, self._request_id, step.headers)

    def _render_answer(self, answer: Answer, body: dict[str, Any], scene: Scene) -> Response:
        head = {
            "id": f"msg_{_digest(body['messages'])}",
            "type": "message",
            "role": "assistant",
            "model": answer.model or self._name or body["model"],
        }
        usage = count_usage(body, answer, scene.k)
        if answer.broken is None:
            self._memory.remember(answer.content)
        if body.get("stream"):
            return self._stream(answer, head, usage)
        return self._plain(answer, head, usage)

    def _stream(self, answer: Answer, head: dict[str, Any], usage: dict[str, int]) -> Response:
        chunks = [encode_event(event) for event in build_events(answer, head, usage)]
        ending = answer.broken.how if answer.broken else None
        if answer.broken and ending == "error":
            error = build_error(answer.broken.error, "as the script says", self._request_id)
            chunks.append(encode_event(error))
            ending = None
        return Wire(chunks, self._headers(), ending, answer.delay)

    def _plain(self, answer: Answer, head: dict[str, Any], usage: dict[str, int]) -> Response:
        whole = encode_json(build_message(answer, head, usage))
        headers = {**self._headers("application/json"), "content-length": str(len(whole))}
        if answer.broken is None:
            return Wire([whole], headers, None, answer.delay)
        if answer.broken.how == "error":
            status = 529 if answer.broken.error == "overloaded_error" else 500
            return render(status, "as the script says", self._request_id)
        chunks = [] if answer.broken.at == "before_start" else [whole[: len(whole) // 2]]
        return Wire(chunks, headers, answer.broken.how, answer.delay)

    @property
    def _request_id(self) -> str:
        return f"req_{self._served:024d}"

    def _headers(self, content_type: str = "text/event-stream; charset=utf-8") -> dict[str, str]:
        return {"content-type": content_type, "request-id": self._request_id}

    async def _render_http(self, request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        return render(status, f"{request.method} {request.url.path}: no such thing here", "req_0")

    async def _render_refusal(self, request: Request, error: Exception) -> Response:
        status = error.status if isinstance(error, Refused) else 400
        return render(status, str(error), self._request_id)


class Wire(Response):
    """Sends the chunks, then ends well (`ending` None), drops the connection, or waits."""

    def __init__(
        self,
        chunks: list[bytes],
        headers: Mapping[str, str],
        ending: str | None,
        delay: float = 0.0,
    ) -> None:
        super().__init__(headers=headers)
        self.raw_headers = [(k.encode(), v.encode()) for k, v in headers.items()]
        self._chunks = chunks
        self._ending = ending
        self._delay = delay

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.sleep(self._delay)
        if not self._chunks and self._ending == "stall":
            await _wait_for_leave(receive)
            return
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        for chunk in self._chunks:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        if self._ending == "stall":
            await _wait_for_leave(receive)
        if self._ending is None:
            await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _wait_for_leave(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _digest(*parts: Json) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:24]


def create_app() -> Scripted:
    """The model of `perdure dev` and `perdure demo`: it holds little, and its answers are free."""
    return Scripted(keep=100, name=SCRIPTED, accepts_foreign_thinking=True)
