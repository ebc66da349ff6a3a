"""Request bodies, read strictly: what is stored must come back as it came in."""

import json
import math
import re
from collections.abc import Iterator
from email.message import Message
from typing import NoReturn

from starlette.requests import Request

from app.domain.canonical import Json
from app.errors import UnsupportedMediaType
from app.http.problems import refuse

DEEPEST = 64
LONGEST_NUMBER = 100
CHARSETS = ("utf-8", "utf8", "us-ascii")

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


class ParsedRequest(Request):
    """A request whose body has been read by `parse`; FastAPI takes its JSON from here."""

    parsed: Json = None

    async def json(self) -> Json:
        return self.parsed


async def read(request: Request) -> ParsedRequest:
    parsed = ParsedRequest(request.scope, request.receive)
    raw = await parsed.body()
    if raw:
        _check_type(request.headers.get("content-type", ""))
        parsed.parsed = parse(raw)
    return parsed


def _check_type(content_type: str) -> None:
    message = Message()
    message["content-type"] = content_type
    charset = message.get_content_charset("utf-8")
    if message.get_content_type() != "application/json" or charset not in CHARSETS:
        raise UnsupportedMediaType("Send JSON in UTF-8, with `Content-Type: application/json`.")


def parse(raw: bytes) -> Json:
    try:
        value = json.loads(
            raw.decode(),
            object_pairs_hook=_object,
            parse_constant=_refuse_constant,
            parse_float=_float,
            parse_int=_int,
        )
    except UnicodeDecodeError:
        raise refuse("body", "must be UTF-8") from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise refuse("body", f"is not JSON: {error.msg} at {place}") from None
    except RecursionError:
        raise _too_deep() from None
    for place, text in _strings(value):
        if _UNSTORABLE.search(text):
            raise refuse(place, "holds NUL or half of a surrogate pair, which no text may hold")
    return value


def _strings(value: Json) -> Iterator[tuple[str, str]]:
    """Every string with the path to it; a key stands at the path of its object."""
    rest = [("", value, 0)]
    while rest:
        place, item, depth = rest.pop()
        if depth > DEEPEST:
            raise _too_deep()
        if isinstance(item, str):
            yield place.lstrip(".") or "body", item
        elif isinstance(item, list):
            rest += [(f"{place}.{n}", each, depth + 1) for n, each in enumerate(item)]
        elif isinstance(item, dict):
            for name, each in item.items():
                yield place.lstrip(".") or "body", name
                rest.append((f"{place}.{name}", each, depth + 1))


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    found: dict[str, Json] = {}
    for name, value in pairs:
        if name in found:
            raise refuse(name, "stands twice in one object")
        found[name] = value
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise refuse("body", f"holds {name}, which is not JSON")


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise refuse("body", f"holds the number {text[:LONGEST_NUMBER]}, which is out of range")
    return value


def _int(text: str) -> int:
    if len(text) > LONGEST_NUMBER:
        raise refuse("body", f"holds a number of more than {LONGEST_NUMBER} digits")
    return int(text)


def _too_deep() -> Exception:
    return refuse("body", f"is nested more than {DEEPEST} levels deep")
