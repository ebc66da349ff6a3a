"""What a command's exit code says; docs/cli.md lists them."""

import json
import sys
from enum import IntEnum
from typing import Any, NoReturn

import typer

from app.cli.remote.text import plain


class Exit(IntEnum):
    OK = 0
    REFUSED = 1
    USAGE = 2
    UNREACHABLE = 3
    UNSUCCESSFUL = 4
    ASKS = 5
    STILL_RUNNING = 6
    UNCERTAIN = 7
    INTERRUPTED = 130
    CUT_OFF = 141


def fail(code: Exit, message: str, hint: str | None = None) -> NoReturn:
    """Ends the command; nothing of this goes to its output."""
    sys.stdout.flush()
    for line in (message, hint):
        if line:
            typer.echo(plain(line, lines=True), err=True)
    raise typer.Exit(code)


def fail_as_json(code: Exit, problem: dict[str, Any]) -> NoReturn:
    sys.stdout.flush()
    typer.echo(json.dumps(problem), err=True)
    raise typer.Exit(code)
