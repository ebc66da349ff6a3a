"""Strings that cannot be sent or stored as they are: halves of UTF-16 pairs."""

from __future__ import annotations

from app.domain.canonical import Json


def is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def join_pairs(text: str) -> str:
    """A pair cut in two by the border of two deltas becomes one character; a lone half stays."""
    if is_encodable(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def replace_lone_halves(value: Json) -> Json:
    """The JSON value with every lone half replaced by U+FFFD; NUL and all else stay."""
    match value:
        case str():
            return value if is_encodable(value) else _replaced(value)
        case list() | tuple():
            return [replace_lone_halves(item) for item in value]
        case dict():
            return {replace_lone_halves(k): replace_lone_halves(v) for k, v in value.items()}
        case _:
            return value


def _replaced(text: str) -> str:
    return "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in join_pairs(text))
