"""Resolving a wait: what is said of one that is of another kind, or that somebody has resolved."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

from app.cli.remote.calling import service
from app.cli.remote.exits import Exit, fail

if TYPE_CHECKING:
    from app.client import Perdure
    from app.client.errors import AlreadyResolved
    from app.client.models import Wait
    from app.domain.states import WaitKind

# A decision that was made is not lost to an API that starts again.
DECIDING_SECONDS = 30.0
# What a wait is, and the command that resolves it.
KINDS = {
    "approval": ("an approval", "perdure waits allow or deny"),
    "outcome": ("a call whose outcome nobody knows", "perdure waits settle"),
    "input": ("a question", "perdure waits answer"),
    "external": ("a tool that runs on the client's side", "perdure waits result"),
}


@contextmanager
def deciding(wait: str, kind: "WaitKind", *, as_json: bool) -> "Iterator[Perdure]":
    """The service, for a command that resolves waits of this kind."""
    from app.client.errors import AlreadyResolved, Invalid

    look = f"perdure waits show {wait}"
    with service(as_json=as_json, patience=DECIDING_SECONDS, look=look) as client:
        try:
            yield client
        except AlreadyResolved as error:
            error.detail = _resolved(error)
            raise
        except Invalid:
            if not as_json and (found := client.waits.get(wait)).kind != kind:
                _is_another(found)
            raise


def already(wait: "Wait") -> str:
    """Of one whose resolution said the same."""
    who, did, rest = _decided(wait)
    return f"Already {did} by {who} {rest}."


def _resolved(error: "AlreadyResolved") -> str:
    from app.client.models import Wait

    try:
        who, did, rest = _decided(Wait.model_validate(error.wait))
    except ValueError:
        return error.detail
    return f"{who} {did} it {rest}; the first one holds."


def _decided(wait: "Wait") -> tuple[str, str, str]:
    """Who resolved it, what that was, and when; the credential where it is not who."""
    from app.cli.remote import screen

    who = wait.on_behalf_of or wait.resolved_by or "somebody"
    when = screen.ago(wait.resolved_at) if wait.resolved_at else "before"
    by = f" ({wait.resolved_by})" if wait.on_behalf_of and wait.resolved_by else ""
    by = " (by a rule)" if wait.resolved_via == "rule" else by
    return who, _did(wait), when + by


def _did(wait: "Wait") -> str:
    said = wait.resolution if isinstance(wait.resolution, dict) else {}
    match said.get("decision"):
        case "allow":
            return "allowed"
        case "deny":
            return "denied"
        case _:
            return "settled" if wait.kind == "outcome" else "answered"


def _is_another(wait: "Wait") -> NoReturn:
    if wait.kind not in KINDS:
        fail(Exit.REFUSED, f"This waits for a {wait.kind}: nobody resolves it.")
    what, command = KINDS[wait.kind]
    fail(Exit.REFUSED, f"This is {what}; use {command}.")
