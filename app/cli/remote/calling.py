"""A client for one command, and what the command ends with when the service refuses."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from app.cli.remote.exits import Exit, fail, fail_as_json

if TYPE_CHECKING:
    from app.client import ClientError, Perdure

# A person waits: an address that is wrong should be told soon.
PATIENCE_SECONDS = 5.0


@contextmanager
def service(
    *, as_json: bool, patience: float = PATIENCE_SECONDS, look: str = "perdure runs list"
) -> "Iterator[Perdure]":
    """The service at PERDURE_URL. `look`: the command that shows whether something was done."""
    from app.client import ClientError, Perdure
    from app.client.errors import Unusable

    try:
        client = Perdure(patience=patience)
    except Unusable as error:
        fail(Exit.USAGE, f"{error}.")
    with client:
        try:
            yield client
        except Unusable as error:
            fail(Exit.USAGE, f"{error}.")
        except ClientError as error:
            _refuse(error, client.url, look, as_json=as_json)
        except KeyboardInterrupt:
            fail(Exit.INTERRUPTED, "Stopped.")


def _refuse(error: "ClientError", url: str, look: str, *, as_json: bool) -> None:
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
            fail(Exit.REFUSED, "\n".join([error.detail, *problems]), error.hint or hint)
        case Uncertain():
            code, hint = Exit.UNCERTAIN, f"Look with `{look}` before you repeat it."
        case _:
            hint = "Start a service, or set PERDURE_URL to the address of one."
    if as_json:
        title = type(error).__name__
        fail_as_json(
            code, {"type": "about:blank", "title": title, "detail": str(error), "hint": hint}
        )
    fail(code, f"{error} ({url})", hint)
