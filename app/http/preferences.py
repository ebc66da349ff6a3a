"""What a client says in headers about how it wants to be answered."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from starlette.requests import Request

from app.domain.ids import new_trace_id
from app.http.problems import refuse

LONGEST_WAIT = 60
JSON = "application/json"
EVENT_STREAM = "text/event-stream"

_KEY = re.compile(r"[\x21-\x7e]{1,255}")
_ESCAPED = re.compile(r"\\([\"\\])")
_EVENT = re.compile(r"[0-9]{1,18}")
_WEIGHT = re.compile(r"(?:0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)")
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


def wants_stream(request: Request) -> bool:
    """Whether `Accept` would rather have an event stream than JSON, which whoever does not say is
    given. At the same weight the one that is named more exactly holds, then the one named first.
    """
    ranges = [_media_range(each) for each in ",".join(request.headers.getlist("accept")).split(",")]
    stream, json = (_rank(ranges, each) for each in (EVENT_STREAM, JSON))
    return stream > json and stream[0] > 0


def _media_range(text: str) -> tuple[str, float]:
    """The range and its weight; one without a sensible weight does not count."""
    name, *parameters = (part.strip().lower() for part in text.split(";"))
    given = next((each[2:] for each in parameters if each.startswith("q=")), "1")
    return name, float(given) if _WEIGHT.fullmatch(given) else 0.0


def _rank(ranges: Sequence[tuple[str, float]], media_type: str) -> tuple[float, int, int]:
    """Weight, exactness, and place from behind, of the most exact range that fits."""
    exactness = {"*/*": 1, media_type.partition("/")[0] + "/*": 2, media_type: 3}
    fitting = [
        (exactness[name], -place, weight)
        for place, (name, weight) in enumerate(ranges)
        if name in exactness
    ]
    if not fitting:
        return 0.0, 0, 0
    exact, place, weight = max(fitting)
    return weight, exact, place


def last_event_of(request: Request) -> int | None:
    """The number of the last event that a client which comes back has seen."""
    given = ",".join(request.headers.getlist("last-event-id")).strip()
    if not given:
        return None
    if not _EVENT.fullmatch(given):
        raise refuse("Last-Event-ID", "must be the id of an event of this run, a number")
    return int(given)


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
