"""Text of models, tools and people, made harmless for a terminal."""

import json
import re

# Controls, which a terminal obeys; marks that turn the direction of text; halves of pairs, which no
# output can encode.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def plain(text: str, *, lines: bool = False) -> str:
    """With what a terminal would obey written out; `lines` are kept, or become spaces."""
    return _UNSAFE.sub(lambda found: _write_out(found[0], lines=lines), text)


def _write_out(character: str, *, lines: bool) -> str:
    if character in "\n\t":
        return character if lines else " "
    code = ord(character)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def shown(value: object) -> str:
    """JSON on one line, or text as it is; harmless."""
    return plain(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def shortened(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
