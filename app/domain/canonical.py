"""JSON as text: one canonical form to hash, one faithful form to store."""

import hashlib
import json
import math
import re
from typing import Any

# What json.loads gives: any nesting of dict, list, str, int, float, bool and None.
Json = Any

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def canonical_json(value: object) -> str:
    """Equal values give equal text: sorted keys, ASCII, no white space, no NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(value: object) -> str:
    return hashlib.sha256(canonical_json(value).encode("ascii")).hexdigest()


def encode(value: object) -> str:
    """ASCII text with the order of the keys kept, so that what comes back is what went in."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def printed(value: object) -> str:
    """The same for what leaves: a number that only JSON's grammar can carry, 1e999, as null."""
    try:
        return encode(value)
    except ValueError:
        return encode(_finite(value))


def readable(value: object) -> str:
    """As a person or a model reads it: letters stand for themselves. Scrubbed values only."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def scrub(value: object) -> Json:
    """The same value with NUL and lone surrogates, which Postgres text refuses, as U+FFFD."""
    match value:
        case str():
            return _scrub_text(value)
        case dict():
            return {scrub(key): scrub(item) for key, item in value.items()}
        case list() | tuple():
            return [scrub(item) for item in value]
        case _:
            return value


def _scrub_text(text: str) -> str:
    if not _UNSTORABLE.search(text):
        return text
    # UTF-16 joins a split surrogate pair into its character; only lone halves are replaced.
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return joined.replace("\x00", "\ufffd")


def _finite(value: Json) -> Json:
    match value:
        case dict():
            return {name: _finite(item) for name, item in value.items()}
        case list():
            return [_finite(item) for item in value]
        case float() if not math.isfinite(value):
            return None
        case _:
            return value
