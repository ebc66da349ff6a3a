"""What can be done with runs."""

import re
import secrets
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from app.client.errors import StillRunning, Unusable
from app.client.listing import Listing, query_of
from app.client.models import Call, Json, Message, RunData, Turn, Wait
from app.client.wire import GATEWAY_TIMEOUT, Flow, Pause, Request, ask, fetch, path, read

Input = str | Sequence[Mapping[str, Any]]
OnBusy = Literal["queue", "reject", "supersede", "return_existing"]

HOLD_SECONDS = 30
# A run that waits for a person is looked at this often: such a request is not held.
LOOK_SECONDS = 1.0

_KEY = re.compile(r"[\x21-\x7e]+")


def submit(
    agent: str,
    input: Input,
    *,
    session: str | None = None,
    target: str | None = None,
    on_busy: OnBusy | None = None,
    limits: Mapping[str, Any] | None = None,
    priority: int | None = None,
    queue_key: str | None = None,
    deadline: datetime | None = None,
    callback: str | None = None,
    metadata: Mapping[str, str] | None = None,
    idempotency_key: str | None = None,
) -> Flow[RunData]:
    """Accepted once, however often it must be sent: each call has a key of its own making."""
    body = _given(
        agent=agent,
        input=input,
        session=session,
        target=target,
        on_busy=on_busy,
        limits=limits,
        priority=priority,
        queue_key=queue_key,
        deadline=deadline,
        callback=None if callback is None else {"url": callback},
        metadata=metadata,
    )
    request = Request("POST", "/v1/runs", body=body, headers=_keyed(idempotency_key))
    return (yield from fetch(request, RunData.model_validate))


def get(run: str) -> Flow[RunData]:
    """The run as it is now."""
    return (yield from fetch(Request("GET", path("runs", run)), RunData.model_validate))


def wait(
    run: str, timeout: float | None = None, *, until: Literal["ended", "asked"] = "ended"
) -> Flow[RunData]:
    """The run once it has ended; with `until="asked"` also as soon as it needs a person or client.

    Raises `StillRunning` after `timeout` seconds. Restarts of the service are waited out.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    was_cut = False
    while True:
        began = time.monotonic()
        left = None if deadline is None else max(deadline - began, 0.0)
        request = _look(run, left, 0 if was_cut else HOLD_SECONDS)
        answer = yield from ask(request)
        # A proxy that waits for less than the service holds; the next look is not held.
        was_cut = request.held and answer.status == GATEWAY_TIMEOUT
        if was_cut:
            continue
        found = read(request, answer, RunData.model_validate)
        if found.has_ended or (until == "asked" and found.asks):
            return found
        now = time.monotonic()
        if deadline is not None and now >= deadline:
            raise StillRunning(found)
        if found.asks or now - began < LOOK_SECONDS:
            yield Pause(LOOK_SECONDS if deadline is None else min(LOOK_SECONDS, deadline - now))


def cancel(run: str, reason: str | None = None, *, compensate: bool = False) -> Flow[RunData]:
    """Asks it to stop; with `compensate` what it has done is undone."""
    request = Request(
        "POST",
        path("runs", run, "cancel"),
        query_of(compensate=compensate or None),
        body=_given(reason=reason),
    )
    answer = yield from ask(request)
    if answer.repeated and answer.status == 409:
        found = yield from get(run)
        # The first try did this, and only its answer was lost.
        if found.status == "cancelled":
            return found
    return read(request, answer, RunData.model_validate)


def resume(run: str, limits: Mapping[str, Any] | None = None) -> Flow[RunData]:
    """Goes on with a dead letter, or after a limit or a model error. Never sent twice."""
    body = _given(limits=limits)
    request = Request("POST", path("runs", run, "resume"), body=body, repeatable=False)
    return (yield from fetch(request, RunData.model_validate))


def fork(
    run: str, turn: int, input: Input | None = None, *, idempotency_key: str | None = None
) -> Flow[RunData]:
    """A new run that shares the turns up to `turn` with their results."""
    body, headers = _given(turn=turn, input=input), _keyed(idempotency_key)
    request = Request("POST", path("runs", run, "fork"), body=body, headers=headers)
    return (yield from fetch(request, RunData.model_validate))


def send(run: str, text: str) -> Flow[Message]:
    """Reaches the model with its next turn. Never sent twice: see `Uncertain`."""
    request = Request("POST", path("runs", run, "messages"), body={"text": text}, repeatable=False)
    return (yield from fetch(request, Message.model_validate))


def withdraw(run: str, message: str) -> Flow[None]:
    """Takes back a message that has not gone to the model."""
    request = Request("DELETE", path("runs", run, "messages", message))
    answer = yield from ask(request)
    if not (answer.repeated and answer.status == 404):
        read(request, answer, Message.model_validate)


def list_runs(
    *,
    status: str | None = None,
    agent: str | None = None,
    session: str | None = None,
    target: str | None = None,
    queue_key: str | None = None,
    created_after: datetime | None = None,
    created_before: datetime | None = None,
) -> Listing[RunData]:
    """The newest first."""
    query = query_of(
        status=status,
        agent=agent,
        session=session,
        target=target,
        queue_key=queue_key,
        created_after=created_after,
        created_before=created_before,
    )
    return Listing(RunData, "/v1/runs", query)


def turns(run: str) -> Listing[Turn]:
    """What the model answered."""
    return Listing(Turn, path("runs", run, "turns"))


def calls(run: str) -> Listing[Call]:
    """What it asked of its tools, and what came of that."""
    return Listing(Call, path("runs", run, "calls"))


def messages(run: str) -> Listing[Message]:
    """What was sent to it on its way."""
    return Listing(Message, path("runs", run, "messages"))


def waits(run: str, *, kind: str | None = None, state: str | None = None) -> Listing[Wait]:
    """What it and its descendants were parked on."""
    return Listing(Wait, "/v1/waits", query_of(run=run, kind=kind, state=state))


def _keyed(given: str | None) -> dict[str, str]:
    if given is not None and not _KEY.fullmatch(given):
        raise Unusable(f"{given!r} is no idempotency key, which is of visible ASCII characters")
    return {"idempotency-key": given or secrets.token_hex(16)}


def _look(run: str, left: float | None, hold: int) -> Request:
    hold = hold if left is None else int(min(hold, left))
    return Request(
        "GET",
        path("runs", run),
        headers={"prefer": f"wait={hold}"} if hold else {},
        seconds=hold + 15.0,
        held=hold > 0,
        patience=left,
    )


def _given(**members: Json) -> dict[str, Json]:
    return {name: value for name, value in members.items() if value is not None}
