"""Names for things. The only place that makes up ids."""

import secrets
import time
from typing import NewType

RunId = NewType("RunId", str)
CallId = NewType("CallId", str)
WorkerId = NewType("WorkerId", str)

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


def _sortable() -> str:
    """26 characters: 48 bits of milliseconds, then 82 random ones, so that ids sort by age."""
    value = (time.time_ns() // 1_000_000) << 82 | secrets.randbits(82)
    return "".join(ALPHABET[value >> shift & 31] for shift in range(125, -1, -5))


def new_run_id() -> RunId:
    return RunId(f"run_{_sortable()}")


def new_session_id() -> str:
    return f"ses_{_sortable()}"


def new_message_id() -> str:
    return f"msg_{_sortable()}"


def new_worker_id(host: str, pid: int) -> WorkerId:
    """Fresh for each process, so that no worker ever takes another's work for its own."""
    return WorkerId(f"{host}-{pid}-{secrets.token_hex(4)}")


def new_trace_id() -> str:
    return secrets.token_hex(16)


def leg_id(run: str, leg: int) -> str:
    """The DBOS workflow that carries this leg."""
    return f"{run}:{leg}"


def call_id(run: str, turn: int, index: int) -> CallId:
    return CallId(f"call_{run.removeprefix('run_')}_{turn}_{index}")


def idempotency_key(run: str, turn: int, index: int) -> str:
    """The same over attempts, workers and deploys."""
    return f"{run}/{turn}/{index}"
