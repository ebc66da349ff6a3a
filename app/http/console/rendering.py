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
from app.services.views_story import MOST_SHOWN, Beginning

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
MOST_IN_BRIEF = 300
# What stands where there is nothing.
NONE = "\u2013"
KINDS = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}

# A number that only JSON's grammar can carry, 1e999, is an error; what is `printed` has none.
_READABLE = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
# No page can hold NUL and halves of surrogate pairs, nor show control characters.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_UNSHOWABLE = "\x01-\x08\x0b\x0c\x0e-\x1f\x7f"
# They turn the order of what is read around: `user\u202egnp.exe` would look harmless.
_TURNING = "\u202a-\u202e\u2066-\u2069"
# Tags stay as they are: their attributes are for the script, which needs the very names.
_SHOWN = re.compile(f"<[^>]*>|[{_UNSHOWABLE}{_TURNING}]")
# In JSON as it is stored, where only ASCII is; a control character stays an escape.
_LETTERS = re.compile(r"((?:\\u(?!00[01])[0-9a-f]{4})+)|\\.")
_HALF_ESCAPE = re.compile(r"(?<!\\)((?:\\\\)*)\\(?:u[0-9a-f]{0,3})?$")
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
        text = _UNSTORABLE.sub("\ufffd", _SHOWN.sub(_shown, text))
        super().__init__(text, status, {**HEADERS, **(headers or {})})


def _shown(found: re.Match[str]) -> str:
    if found[0].startswith("<"):
        return found[0]
    return f"⟨U+{ord(found[0]):04X}⟩" if found[0] > "\x7f" else "\ufffd"


def shown_json(value: object) -> str:
    """As JSON for people: letters as they are, what cannot be seen as its escape."""
    text = on_one_line(value)
    if isinstance(value, Beginning) or len(text) > MOST_SHOWN:
        return text
    text = json.dumps(json.loads(printed(value)), indent=2, ensure_ascii=False)
    return _visible(text)


def on_one_line(value: object) -> str:
    if isinstance(value, Beginning):
        return _visible(_LETTERS.sub(_letters, value.text)) + "\u2026"
    try:
        text = _READABLE.encode(value)
    except (ValueError, RecursionError):
        text = _READABLE.encode(json.loads(printed(value)))
    return _visible(text)


def _visible(text: str) -> str:
    return _INVISIBLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _letters(found: re.Match[str]) -> str:
    return str(json.loads(f'"{found[1]}"')) if found[1] else found[0]


def in_brief(value: object) -> str:
    return on_one_line(value)[:MOST_IN_BRIEF]


def as_text(value: object) -> str | None:
    """A value that is text, or the beginning of one."""
    if isinstance(value, Beginning) and value.text.startswith('"'):
        whole = _HALF_ESCAPE.sub(r"\1", value.text)
        return f"{json.loads(whole + chr(34))}\u2026"
    return value if isinstance(value, str) else None


def is_cut(value: object) -> bool:
    return isinstance(value, Beginning)


def beginning(text: str) -> str:
    return f"{text[:MOST_SHOWN]}\u2026" if len(text) > MOST_SHOWN else text


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
    times = (moment, lasting, short)
    said = (words, broken, texts, first_line, count_of, in_brief, beginning, as_text)
    made.filters |= {each.__name__: each for each in (*times, *said)}
    made.filters |= {"json": shown_json, "line": on_one_line}
    made.tests["cut"] = is_cut
    made.globals |= {"address": address, "between": between, "Scale": Scale}
    return made


TEMPLATES = _environment()
