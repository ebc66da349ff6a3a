"""The shapes of answers, for readers of /openapi.json; handlers send plain JSON."""

from datetime import datetime
from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict

from app.domain.states import Status, WaitKind, WaitState
from app.domain.webhooks import State as DeliveryState

T = TypeVar("T")
Json = Any


class Answer(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Page(Answer, Generic[T]):
    data: list[T]
    next: str | None


class WaitingFor(Answer):
    id: str
    run: str
    kind: WaitKind
    call: str | None
    tool: str | None
    question: str
    arguments: Json
    arguments_hash: str | None
    idempotency_key: str | None
    evidence: Json
    deadline: datetime | None


class Usage(Answer):
    model_calls: int
    repaid_model_calls: int
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    cost_usd: str


class Limits(Answer):
    turns: int | None
    tokens: int | None
    cost_usd: str | None
    seconds: float | None
    calls: int | None


class LimitsLeft(Answer):
    """Only what is limited."""

    turns: int | None = None
    tokens: int | None = None
    cost_usd: str | None = None
    seconds: float | None = None
    calls: int | None = None


class Effect(Answer):
    call: str
    tool: str
    effect: Literal["confirmed", "absent", "unknown", "compensated"]


class Run(Answer):
    id: str
    agent: str
    agent_version: str
    session: str
    parent: str | None
    root: str
    children: list[str]
    forked_from: str | None
    status: Status
    reason: str | None
    stalled: str | None
    waiting_for: list[WaitingFor]
    input: Json
    output: Json
    error: Json
    target: str | None
    metadata: dict[str, str]
    priority: int
    queue_key: str
    deadline: datetime | None
    turns: int
    leg: int
    attempt: int
    worker: str | None
    usage: Usage
    limits: Limits
    limits_left: LimitsLeft
    trace_id: str
    effects: list[Effect]
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class Attempt(Answer):
    attempt: int
    worker: str
    started_at: datetime
    ended_at: datetime | None
    outcome: str | None


class Turn(Answer):
    run: str
    number: int
    model: str
    stop_reason: str | None
    content: Json
    usage: Json
    prompt_hash: str
    tools_hash: str
    attempts: int
    worker: str
    history: list[Attempt]
    started_at: datetime
    finished_at: datetime | None


class Call(Answer):
    id: str
    run: str
    turn: int
    index: int
    provider_id: str
    tool: str
    arguments: Json
    arguments_hash: str | None
    replay: Literal["read_only", "idempotent", "transactional", "at_most_once"] | None
    approval: Literal["never", "always"] | None
    state: Literal[
        "proposed",
        "waiting",
        "ready",
        "started",
        "succeeded",
        "failed",
        "outcome_unknown",
        "denied",
        "expired",
        "cancelled",
    ]
    attempts: int
    idempotency_key: str
    compensates: str | None
    result: Json
    is_error: bool | None
    worker: str | None
    history: list[Attempt]
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class Event(Answer):
    seq: int
    run: str
    type: str
    data: Json
    at: datetime


class Events(Answer):
    data: list[Event]
    next: int | None


class Wait(Answer):
    id: str
    run: str
    kind: WaitKind
    state: WaitState
    call: str | None
    tool: str | None
    question: str
    arguments: Json
    arguments_hash: str | None
    evidence: Json
    deadline: datetime | None
    resolution: Json
    rule: str | None
    resolved_by: str | None
    on_behalf_of: str | None
    resolved_via: str | None
    resolved_at: datetime | None
    created_at: datetime


class Rule(Answer):
    id: str
    scope: Literal["run", "session", "agent"]
    agent: str
    session: str
    run: str
    tool: str
    when: dict[str, dict[str, Json]]
    wait: str
    author: str
    on_behalf_of: str | None
    made_via: str
    state: Literal["standing", "expired", "revoked"]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    revoked_by: str | None


class Message(Answer):
    id: str
    run: str
    text: str
    state: Literal["queued", "delivered", "undelivered"]
    turn: int | None
    created_at: datetime


class Delivery(Answer):
    """One event on its way to a callback; `id` is the webhook-id."""

    id: str
    run: str
    seq: int
    type: str
    url: str
    state: DeliveryState
    attempts: int
    next_attempt_at: datetime | None
    last_status: int | None
    last_error: str | None
    last_attempt_at: datetime | None
    delivered_at: datetime | None
    created_at: datetime


class WebhookData(Answer):
    run: Run


class Webhook(Answer):
    """`timestamp`: of the event; the run is as it was when this was first sent."""

    type: str
    timestamp: datetime
    data: WebhookData


class Health(Answer):
    status: Literal["ok"]


class FieldProblem(BaseModel):
    field: str
    message: str


class Problem(BaseModel):
    """RFC 9457."""

    type: str
    title: str
    status: int
    detail: str
    hint: str | None = None
    errors: list[FieldProblem] | None = None
