"""Ids say of what kind a thing is, and so which command shows it."""

from app.cli.remote.exits import Exit, fail

KINDS = {
    "run": ("a run", "perdure runs show {id}"),
    "wait": ("a wait", "perdure waits show {id}"),
    "call": ("a call", "perdure runs show RUN lists those of a run"),
    "ses": ("a session", "perdure runs list --session {id}"),
}


def a_run(given: str) -> str:
    return _expect(given, "run")


def a_wait(given: str) -> str:
    return _expect(given, "wait")


def a_wait_or_call(given: str) -> str:
    return _expect(given, "wait", "call")


def _expect(given: str, *kinds: str) -> str:
    """Whether there is such a thing, the service knows; that it is another is told at once."""
    kind, mark, _ = (given or "").partition("_")
    if mark and kind in KINDS and kind not in kinds:
        name, command = KINDS[kind]
        fail(Exit.USAGE, f"That is {name}: {command.format(id=given)}")
    return given
