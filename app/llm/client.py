"""The model port: one request in, one whole answer or one classified failure out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol


@dataclass(frozen=True)
class ModelRequest:
    model: str
    max_tokens: int
    system: list[dict[str, Any]]
    tools: list[dict[str, Any]]
    messages: list[dict[str, Any]]
    thinking: dict[str, Any] | None = None


@dataclass(frozen=True)
class Usage:
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0


@dataclass(frozen=True)
class ModelAnswer:
    """`content` is what the provider sent, value for value, fit to go back unchanged."""

    model: str
    stop_reason: str
    content: list[dict[str, Any]]
    usage: Usage


@dataclass(frozen=True)
class ModelFailure:
    """`maybe_paid`: the answer had begun, or nobody can know whether it had."""

    verdict: Literal["retry", "fatal"]
    status: int | None
    type: str
    detail: str
    retry_after: float | None
    maybe_paid: bool


class ModelClient(Protocol):
    """`provider`: names who answers, and whose limits all workers share."""

    provider: str

    async def answer(
        self, request: ModelRequest, on_text: Callable[[str], None] | None = None
    ) -> ModelAnswer | ModelFailure:
        """Ask once. Never raises for what the provider or the network does."""
        ...

    async def close(self) -> None: ...
