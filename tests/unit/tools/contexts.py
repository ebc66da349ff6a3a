"""Contexts for tools under test."""

from typing import Any

from app import ToolContext


def make_context(**given: Any) -> ToolContext:
    """The first attempt of the first call of a run."""
    fields: dict[str, Any] = {
        "run_id": "run_1",
        "session_id": "ses_1",
        "agent": "desk",
        "turn": 1,
        "index": 0,
        "attempt": 1,
        "idempotency_key": "run_1/1/0",
        "fence": 1,
    }
    return ToolContext(**fields | given)
