"""A client for one command, and what the command ends with when the service refuses."""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from typing import TYPE_CHECKING

from app.cli.remote.exits import Exit, fail, fail_as_json

if TYPE_CHECKING:
    from app.client import ClientError, Perdure

# A person waits: an address that is wrong should be told soon.
PATIENCE_SECONDS = 5.0
# What a command does that the service tells in HTTP.
COMMANDS = {
    "/v1/agents": "perdure agents",
    "/v1/runs": "perdure runs list",
    "/v1/waits": "perdure waits list",
    "/v1/runs/{id}/calls": "perdure runs show RUN",
}


@contextmanager
def service(
    *,
    as_json: bool,
    patience: float = PATIENCE_SECONDS,
    look: str | None = None,
    agent: str | None = None,
) -> "Iterator[Perdure]":
    """The service at PERDURE_URL. `look`: the command that shows whether something was done, for
    one that does something.

    `agent`: the name of one that is asked for, for where there is none of that name.
    """
    from app.client import ClientError, Perdure
    from app.client.errors import AgentNotFound, Unusable

    try:
        client = Perdure(patience=patience)
    except Unusable as error:
        fail(Exit.USAGE, f"{error}.")
    with client:
        try:
            yield client
        except Unusable as error:
            fail(Exit.USAGE, f"{error}.")
        except AgentNotFound as error:
            with suppress(ClientError):
                error.hint = _meant(agent, (each.name for each in client.agents.list()))
            _refuse(error, client.url, look, as_json=as_json)
        except ClientError as error:
            _refuse(error, client.url, look, as_json=as_json)
        except KeyboardInterrupt:
            may_be = "" if look is None else " It may have been done."
            fail(Exit.INTERRUPTED, f"Stopped.{may_be}", _where(look))


def _refuse(error: "ClientError", url: str, look: str | None, *, as_json: bool) -> None:
    from app.client import Problem, StillRunning, Uncertain

    code = Exit.UNREACHABLE
    match error:
        case StillRunning():
            why = f" It is stalled: {error.run.stalled}." if error.run.stalled else ""
            fail(Exit.STILL_RUNNING, f"{error} It goes on.{why}")
        case Problem():
            if as_json:
                fail_as_json(Exit.REFUSED, dict(error.raw))
            problems = [f"  {each.field}: {each.message}" for each in error.errors[1:]]
            hint = "Set PERDURE_API_KEY to the key of the service." if error.status == 401 else None
            detail = in_commands(error.detail)
            fail(Exit.REFUSED, "\n".join([detail, *problems]), error.hint or hint)
        case Uncertain():
            code, hint = Exit.UNCERTAIN, _where(look)
        case _:
            hint = "Start a service, or set PERDURE_URL to the address of one."
    if as_json:
        title = type(error).__name__
        fail_as_json(
            code, {"type": "about:blank", "title": title, "detail": str(error), "hint": hint}
        )
    fail(code, f"{error} ({url})", hint)


def _where(look: str | None) -> str | None:
    return None if look is None else f"Look with `{look}` before you repeat it."


def in_commands(detail: str) -> str:
    """What the service advises for HTTP, as a command where one does the same."""
    return re.sub(r"\bGET (/v1/[\w/{}]+)", _command, detail)


def _command(found: re.Match[str]) -> str:
    command = COMMANDS.get(found[1])
    return f"`{command}`" if command else found[0]


def _meant(agent: str | None, known: Iterable[str]) -> str | None:
    close = get_close_matches(agent or "", list(known), n=1)
    return f"Did you mean {close[0]}?" if close else None
