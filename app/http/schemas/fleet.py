"""The shapes of answers about agents, workers and sessions."""

from datetime import datetime
from typing import Any, Literal

from app.http.schemas.answers import Answer, Json, Limits


class Agent(Answer):
    name: str
    version: str
    model: str
    instructions: str
    tools: list[str]
    limits: Limits
    worker_count: int


class Tool(Answer):
    name: str
    agent: str
    description: str
    input_schema: dict[str, Any]
    replay: str
    approval: str
    has: dict[str, bool]
    timeout: float | None
    attempts: int
    external: bool


class Leg(Answer):
    run: str
    leg: int


class Worker(Answer):
    id: str
    host: str
    pid: int
    version: str
    agents: list[str]
    started_at: datetime
    lease: Literal["held", "lost"]
    last_beat_at: datetime
    leaving: bool
    isolated: bool
    legs: list[Leg]


class Session(Answer):
    id: str
    runs: list[str]
    active_run: str | None
    metadata: dict[str, Json]
    created_at: datetime


class Said(Answer):
    role: Literal["user", "assistant"]
    content: list[Json]


class Transcript(Answer):
    session: str
    messages: list[Said]
