"""What an open wait asks, and the commands that settle it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

from app.cli.remote.text import shown

if TYPE_CHECKING:
    from app.client.models import Wait, WaitingFor


Asked: TypeAlias = "Wait | WaitingFor"


def describe(wait: Asked) -> str:
    """On one line: what stands below a question are the commands that settle it."""
    asked = " ".join(shown(wait.question).split()) or wait.kind
    return f"{asked} {shown(wait.tool)}({shown(wait.arguments)})" if wait.tool else asked


def commands(wait: Asked) -> Iterator[str]:
    match wait.kind:
        case "approval":
            yield f"perdure waits allow {wait.id}"
            yield f"perdure waits deny {wait.id} --reason '…'"
        case "outcome":
            yield f"perdure waits settle {wait.id} happened --result '…'"
            yield f"perdure waits settle {wait.id} did_not_happen"
            yield f"perdure waits settle {wait.id} skip"
        case "input":
            yield f"perdure waits answer {wait.id} '…'"
        case "external":
            yield f"perdure waits result {wait.id} '…'"
        case _:
            pass
