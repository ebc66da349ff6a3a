"""The script file: what runs are submitted, how the model and the people in them behave."""

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from app.cli.verify.model import script_text
from app.errors import ConfigurationError

Json = dict[str, Any]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class RunPart(_Part):
    """`model`: the model's steps, as app/llm/scripted/script.py says; else the input decides."""

    input: str
    model: list[Json] | None = None
    session: str | None = None

    @property
    def text(self) -> str:
        return script_text(self.input, self.model)


class Service(_Part):
    """Something outside: an ASGI app that is new for each trial, or one that stands at a URL.

    `ledger`: a path where it shows, as {"rows": […]}, what it has done.
    """

    app: str | None = None
    url: str | None = None
    ledger: str | None = None


class Scenario(_Part):
    """`services`: by the environment variable in which tools find the URL.

    `answers`: what people and clients say, by the name of the tool they are asked about, or "*".
    `reads`: requests such as "POST /search" that change nothing.
    """

    runs: Annotated[list[RunPart], Field(min_length=1)]
    services: dict[str, Service] = Field(default_factory=dict)
    answers: dict[str, Json] = Field(default_factory=dict)
    environment: dict[str, str] = Field(default_factory=dict)
    tables: str | None = Field(None, description="SQL that makes the tables of the tools")
    reads: list[str] = Field(default_factory=list)

    def answer(self, kind: str, tool: str) -> Json:
        """To a wait of this kind; a person says yes unless the script says otherwise."""
        said = self.answers.get(tool) or self.answers.get("*") or {}
        return {name: said[name] for name in said if name in _FIELDS[kind]} or _DEFAULTS[kind]


_FIELDS = {
    "approval": ("decision", "reason"),
    "outcome": ("outcome", "result", "reason"),
    "input": ("text",),
    "external": ("result", "is_error"),
}
_DEFAULTS: dict[str, Json] = {
    "approval": {"decision": "allow"},
    "outcome": {"outcome": "skip"},
    "input": {"text": "yes"},
    "external": {"result": {}},
}


def read(path: Path) -> Scenario:
    try:
        return Scenario.model_validate(json.loads(path.read_text()))
    except OSError as error:
        raise ConfigurationError(f"The script cannot be read: {error}.") from error
    except ValueError as error:
        problems = [str(error)]
        if isinstance(error, ValidationError):
            problems = [
                f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()
            ]
        raise ConfigurationError(f"The script {path} is none:", problems) from error


def load_app(name: str) -> Callable[..., Any]:
    """What `package.module:factory` makes, afresh."""
    module, _, factory = name.partition(":")
    try:
        make = getattr(importlib.import_module(module), factory)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigurationError(f"The service {name!r} cannot be loaded: {error}.") from error
    made: Callable[..., Any] = make()
    return made
