"""What the service answers, typed. Members that this version does not know are kept in `raw`."""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

Json = Any
T = TypeVar("T")

ENDED = frozenset({"succeeded", "failed", "cancelled", "dead_letter"})
TERMINAL = frozenset(f"run.{status}" for status in ENDED)
# Waits that only the clock or another run ends.
PASSIVE = frozenset({"timer", "child"})


class Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)

    raw: Mapping[str, Any] = Field(repr=False)

    @model_validator(mode="before")
    @classmethod
    def _keep(cls, value: Any) -> Any:  # noqa: ANN401 - whatever came in
        return {**value, "raw": value} if isinstance(value, dict) else value


class Page(BaseModel, Generic[T]):
    data: list[T]
    next: str | None


class WaitingFor(Model):
    """An open wait, as a run shows it."""

    id: str
    run: str
    kind: str
    call: str | None = None
    tool: str | None = None
    question: str = ""
    arguments: Json = None
    arguments_hash: str | None = None
    idempotency_key: str | None = None
    evidence: Json = None
    deadline: datetime | None = None


class Usage(Model):
    model_calls: int
    repaid_model_calls: int
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    cost_usd: Decimal


class Limits(Model):
    turns: int | None = None
    tokens: int | None = None
    cost_usd: Decimal | None = None
    seconds: float | None = None
    calls: int | None = None


class Effect(Model):
    call: str
    tool: str
    effect: str


class RunData(Model):
    id: str
    agent: str
    agent_version: str
    session: str
    parent: str | None = None
    root: str
    children: list[str] = []
    forked_from: str | None = None
    status: str
    reason: str | None = None
    stalled: str | None = None
    waiting_for: list[WaitingFor] = []
    input: Json = None
    output: Json = None
    error: Json = None
    target: str | None = None
    metadata: dict[str, str] = {}
    turn_count: int = Field(alias="turns")
    leg: int
    attempt: int
    worker: str | None = None
    usage: Usage
    limits: Limits
    limits_left: Limits
    trace_id: str
    effects: list[Effect] = []
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None

    @property
    def has_ended(self) -> bool:
        return self.status in ENDED

    @property
    def asks(self) -> list[WaitingFor]:
        """The open waits that a person or a client resolves."""
        return [wait for wait in self.waiting_for if wait.kind not in PASSIVE]

    @property
    def text(self) -> str | None:
        """The text of its output."""
        return self.output.get("text") if isinstance(self.output, dict) else None


class Attempt(Model):
    attempt: int
    worker: str
    started_at: datetime
    ended_at: datetime | None = None
    outcome: str | None = None


class Turn(Model):
    run: str
    number: int
    model: str
    stop_reason: str | None = None
    content: Json = None
    usage: Json = None
    prompt_hash: str
    tools_hash: str
    attempts: int
    worker: str
    history: list[Attempt] = []
    started_at: datetime
    finished_at: datetime | None = None


class Call(Model):
    id: str
    run: str
    turn: int
    index: int
    provider_id: str
    tool: str
    arguments: Json = None
    arguments_hash: str | None = None
    replay: str | None = None
    approval: str | None = None
    state: str
    attempts: int
    idempotency_key: str
    compensates: str | None = None
    result: Json = None
    is_error: bool | None = None
    worker: str | None = None
    history: list[Attempt] = []
    started_at: datetime | None = None
    finished_at: datetime | None = None


class Event(Model):
    """`seq` is None for what is not stored: `model.delta`."""

    seq: int | None = None
    run: str
    type: str
    data: Json = None
    at: datetime | None = None


class Wait(Model):
    id: str
    run: str
    kind: str
    state: str
    call: str | None = None
    tool: str | None = None
    question: str = ""
    arguments: Json = None
    arguments_hash: str | None = None
    evidence: Json = None
    deadline: datetime | None = None
    resolution: Json = None
    resolved_by: str | None = None
    on_behalf_of: str | None = None
    resolved_via: str | None = None
    resolved_at: datetime | None = None
    rule: str | None = None
    created_at: datetime


class Message(Model):
    id: str
    run: str
    text: str
    state: str
    turn: int | None = None
    created_at: datetime


class Rule(Model):
    id: str
    scope: str
    agent: str
    session: str
    run: str
    tool: str
    when: dict[str, Json]
    author: str
    state: str
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None


class Agent(Model):
    name: str
    version: str
    model: str
    instructions: str
    tools: list[str]
    limits: Limits
    worker_count: int


class Tool(Model):
    name: str
    agent: str
    description: str
    input_schema: dict[str, Any]
    replay: str
    approval: str
    has: dict[str, bool] = {}
    timeout: float | None = None
    attempts: int
    external: bool


class Leg(Model):
    run: str
    leg: int


class Worker(Model):
    id: str
    host: str
    pid: int
    version: str
    agents: list[str]
    started_at: datetime
    lease: str
    last_beat_at: datetime
    leaving: bool = False
    isolated: bool = False
    legs: list[Leg] = []


class Session(Model):
    id: str
    runs: list[str]
    active_run: str | None = None
    metadata: dict[str, Json] = {}
    created_at: datetime


class Said(Model):
    role: str
    content: list[Json]


class Transcript(Model):
    session: str
    messages: list[Said]


class Delivery(Model):
    """One event on its way to a callback; `id` is the webhook-id."""

    id: str
    run: str
    seq: int
    type: str
    url: str
    state: str
    attempts: int
    next_attempt_at: datetime | None = None
    last_status: int | None = None
    last_error: str | None = None
    created_at: datetime
