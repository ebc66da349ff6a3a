"""What a client says in headers about how it wants to be answered."""

import re
from dataclasses import dataclass

from starlette.requests import Request

from app.domain.ids import new_trace_id
from app.http.problems import refuse

LONGEST_WAIT = 60

_KEY = re.compile(r"[\x21-\x7e]{1,255}")
_ESCAPED = re.compile(r"\\([\"\\])")
_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?")


@dataclass(frozen=True)
class Preference:
    """`Prefer` (RFC 7240): `wait` in seconds, 0 for at once; `applied` as the answer says it."""

    wait: int = 0
    applied: str | None = None


def preference_of(request: Request) -> Preference:
    """As the RFC asks, the unknown and malformed is ignored; the first of a name holds."""
    given: dict[str, str] = {}
    for token in ",".join(request.headers.getlist("prefer")).split(","):
        name, _, value = token.partition(";")[0].partition("=")
        given.setdefault(name.strip().lower(), value.strip().strip('"'))
    seconds = given.get("wait", "")
    if seconds.isascii() and seconds.isdigit() and len(seconds) < 10:
        wait = min(int(seconds), LONGEST_WAIT)
        return Preference(wait, f"wait={wait}")
    return Preference(applied="respond-async" if "respond-async" in given else None)


def idempotency_key_of(request: Request) -> str | None:
    """Bare, or quoted as the draft standard has it; both forms of one key are the same key."""
    given = request.headers.getlist("idempotency-key")
    if not given:
        return None
    key = given[0]
    if len(key) >= 2 and key[0] == key[-1] == '"':
        key = _ESCAPED.sub(r"\1", key[1:-1])
    if len(given) > 1 or not _KEY.fullmatch(key):
        raise refuse("Idempotency-Key", "must be one key of 1 to 255 visible ASCII characters")
    return key


def trace_id_of(request: Request) -> str:
    """The trace that the client is in (W3C Trace Context), else a new one."""
    found = _TRACEPARENT.fullmatch(request.headers.get("traceparent", "").strip())
    if found is None:
        return new_trace_id()
    version, trace_id, parent_id, more = found.groups()
    known = version != "ff" and not (version == "00" and more)
    if not known or set(trace_id) == {"0"} or set(parent_id) == {"0"}:
        return new_trace_id()
    return str(trace_id)
