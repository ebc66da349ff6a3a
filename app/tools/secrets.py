"""Secrets are handles: read when a tool runs, taken out of everything it says."""

import json
import os
import re
from collections.abc import Callable
from urllib.parse import quote

from app.domain.canonical import Json
from app.tools.errors import MissingSecret

SecretProvider = Callable[[str], str]

# Shorter values would hit ordinary words and numbers.
_SHORTEST = 4


def environment_secret(name: str) -> str:
    """Read at each use, so that a rotated credential needs no code."""
    try:
        return os.environ[name]
    except KeyError:
        raise MissingSecret(f"the secret {name} is not set on this worker") from None


class Redaction:
    """The values handed out so far, each with the name that replaces it."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def add(self, name: str, value: str) -> None:
        if len(value) < _SHORTEST:
            return
        for form in (value, json.dumps(value)[1:-1], quote(value, safe="")):
            self._names.setdefault(form, name)

    def text(self, text: str) -> str:
        names = dict(self._names)
        if not names:
            return text
        longest_first = sorted(names, key=len, reverse=True)
        pattern = "|".join(re.escape(value) for value in longest_first)
        return re.sub(pattern, lambda found: f"[secret {names[found[0]]}]", text)

    def json(self, value: Json) -> Json:
        match value:
            case str():
                return self.text(value)
            case dict():
                return {self.json(key): self.json(item) for key, item in value.items()}
            case list() | tuple():
                return [self.json(item) for item in value]
            case _:
                return value
