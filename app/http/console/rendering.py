"""Templates to answers: everything escaped, nothing from elsewhere, no script but our own."""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha256
from importlib.resources import files
from typing import Any

from jinja2 import ChainableUndefined, Environment, PackageLoader
from markupsafe import Markup, escape
from starlette.responses import Response

from app.domain.canonical import printed
from app.http.console.conversation import first_line, texts
from app.http.console.timeline import Scale
from app.services.views_console import count_of

PACKAGE = "app.http.console"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
# Characters of one value. Of a longer one a page shows the beginning, with a link to the whole.
MOST_SHOWN = 8_000
MOST_IN_BRIEF = 300
# What stands where there is nothing.
NONE = "\u2013"
KINDS = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}

# A number that only JSON's grammar can carry, 1e999, is an error; what is `printed` has none.
_READABLE = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
# No page can hold halves of surrogate pairs, nor show control characters.
_UNSHOWABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
# They turn the order of what is read around: `user\u202egnp.exe` would look harmless.
_TURNING = re.compile("[\u202a-\u202e\u2066-\u2069]")
_INVISIBLE = re.compile(
    "[\x7f-\x9f\u00ad\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)


def _read_static() -> dict[str, tuple[bytes, str]]:
    """Name to content and media type."""
    folder = files(PACKAGE).joinpath("static")
    return {
        item.name: (item.read_bytes(), KINDS[f".{item.name.rpartition('.')[2]}"])
        for item in folder.iterdir()
        if f".{item.name.rpartition('.')[2]}" in KINDS
    }


STATIC = _read_static()


def address(name: str) -> str:
    """Of a file, with what it holds in it: a browser may keep it for good."""
    return f"/static/{name}?v={sha256(STATIC[name][0]).hexdigest()[:12]}"


class Page(Response):
    media_type = "text/html"

    def __init__(
        self,
        template: str,
        context: Mapping[str, Any],
        status: int = 200,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        text = TEMPLATES.get_template(template).render(context)
        text = _TURNING.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", text)
        content = _UNSHOWABLE.sub("\ufffd", text)
        super().__init__(content, status, {**HEADERS, **(headers or {})})


def shown_json(value: object, *, entire: bool = True) -> str:
    """As JSON for people: letters as they are, what cannot be seen as its escape.

    Not `entire`: of what a page is to cut, no more than is cut.
    """
    text = on_one_line(value, MOST_SHOWN)
    if len(text) > MOST_SHOWN:
        return on_one_line(value) if entire else text
    text = json.dumps(json.loads(printed(value)), indent=2, ensure_ascii=False)
    return _INVISIBLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def on_one_line(value: object, most: int | None = None) -> str:
    """All of it or, where it is longer than `most`, at least so much."""
    try:
        text = _readable(value, most)
    except (ValueError, RecursionError):
        text = _readable(json.loads(printed(value)), None)
    return _INVISIBLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _readable(value: object, most: int | None) -> str:
    if most is None:
        return _READABLE.encode(value)
    text = ""
    for piece in _READABLE.iterencode(value):
        text += piece
        if len(text) > most:
            break
    return text


def in_brief(value: object) -> str:
    return on_one_line(value, MOST_IN_BRIEF)[:MOST_IN_BRIEF]


def is_long(value: object) -> bool:
    return is_cut(on_one_line(value, MOST_SHOWN))


def is_cut(text: str) -> bool:
    return len(text) > MOST_SHOWN


def beginning(text: str) -> str:
    return f"{text[:MOST_SHOWN]}\u2026" if is_cut(text) else text


def moment(text: str | None, form: str = "moment") -> Markup:
    """A time element in UTC; the script tells it in the reader's own words and zone."""
    if text is None:
        return Markup(NONE)
    at = datetime.fromisoformat(text).astimezone(UTC)
    words = at.strftime("%Y-%m-%d %H:%M:%S UTC")
    return Markup('<time datetime="{}" data-form="{}" title="{}">{}</time>').format(
        text, form, words, words
    )


def lasting(seconds: float | None) -> str:
    """A duration, in the two largest units that tell something."""
    if seconds is None:
        return NONE
    if seconds < 1:
        return f"{max(seconds, 0) * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min"
    return f"{hours // 24} d {hours % 24} h"


def between(start: str | None, end: str | None, now: datetime) -> float | None:
    if start is None:
        return None
    last = now if end is None else datetime.fromisoformat(end)
    return (last - datetime.fromisoformat(start)).total_seconds()


def short(id: str | None) -> str:
    """Enough of an id to tell it from its neighbours."""
    return NONE if id is None else id if len(id) <= 14 else f"…{id[-8:]}"


def words(name: str | None) -> str:
    return "" if name is None else name.replace("_", " ")


def broken(text: str) -> Markup:
    """A name that may be broken behind its underscores and dots."""
    return Markup(re.sub(r"([_./:-])", r"\1<wbr>", str(escape(text))))


def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader(PACKAGE),
        autoescape=True,
        undefined=ChainableUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters = (moment, lasting, short, words, broken, texts, first_line, count_of, in_brief)
    made.filters |= {each.__name__: each for each in filters}
    made.filters |= {"json": shown_json, "line": on_one_line, "beginning": beginning}
    made.tests |= {"cut": is_cut, "long": is_long}
    made.globals |= {"address": address, "between": between, "Scale": Scale}
    return made


TEMPLATES = _environment()
