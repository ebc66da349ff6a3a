"""Stand-ins for the outside world, served on a loopback port."""

from collections.abc import Callable
from typing import Any, assert_never

import uvicorn

from app.cli import Part


def serve(part: Part, port: int, ledger: str) -> None:
    uvicorn.run(
        _build(part, ledger),
        host="127.0.0.1",
        port=port,
        log_level="critical",
        timeout_graceful_shutdown=1,
    )


def _build(part: Part, ledger: str) -> Callable[..., Any]:
    match part:
        case Part.MODEL:
            from app.llm.scripted import create_app as create_model

            return create_model()
        case Part.PROVIDER:
            from app.agents.provider import create_app as create_provider

            return create_provider(ledger)
        case _:
            assert_never(part)
