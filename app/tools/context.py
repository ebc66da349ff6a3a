"""What a running tool knows about its call."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from app.domain.canonical import Json
from app.tools.secrets import Redaction, SecretProvider, environment_secret

if TYPE_CHECKING:
    from sqlalchemy import Connection
    from sqlalchemy.ext.asyncio import AsyncConnection


def _discard(text: str) -> None:
    """Progress that nobody listens to."""


@dataclass(frozen=True)
class Done:
    """The call that a `compensate` hook is to undo: what it returned, and under which key."""

    idempotency_key: str
    result: Json


class ToolContext:
    """One attempt of one call. Safe to use from the thread a sync tool runs in.

    `done`: in a `compensate` hook, the call to undo; else None. The hook's own call has an
    `idempotency_key` of its own."""

    def __init__(
        self,
        *,
        run_id: str,
        session_id: str,
        agent: str,
        turn: int,
        index: int,
        attempt: int,
        idempotency_key: str,
        fence: int,
        done: Done | None = None,
        connection: "AsyncConnection | Connection | None" = None,
        secrets: SecretProvider = environment_secret,
        on_progress: Callable[[str], None] = _discard,
        cancelled: threading.Event | None = None,
    ) -> None:
        self.run_id = run_id
        self.session_id = session_id
        self.agent = agent
        self.turn = turn
        self.index = index
        self.attempt = attempt
        self.idempotency_key = idempotency_key
        self.fence = fence
        self.done = done
        self._connection = connection
        self._secrets = secrets
        self._on_progress = on_progress
        self._cancelled = cancelled or threading.Event()
        self._redaction = Redaction()

    @property
    def connection(self) -> Any:  # noqa: ANN401 - which of the two, the tool knows
        """An SQLAlchemy `AsyncConnection` (sync tool: `Connection`) in the call's transaction."""
        if self._connection is None:
            raise RuntimeError(
                "ctx.connection exists only in a tool declared with replay='transactional'"
            )
        return self._connection

    @property
    def cancelled(self) -> bool:
        """True once the run was cancelled or belongs to another worker: stop early."""
        return self._cancelled.is_set()

    def secret(self, name: str, default: str | None = None) -> str:
        """The secret's value; it is replaced by its name in all that the tool returns or says."""
        try:
            value = self._secrets(name)
        except LookupError:
            if default is None:
                raise
            return default
        self._redaction.add(name, value)
        return value

    def progress(self, text: str) -> None:
        self._on_progress(self.redact(text))

    def redact(self, text: str) -> str:
        return self._redaction.text(text)

    def redact_json(self, value: Json) -> Json:
        return self._redaction.json(value)

    def __repr__(self) -> str:
        return f"ToolContext({self.idempotency_key!r}, attempt={self.attempt})"
