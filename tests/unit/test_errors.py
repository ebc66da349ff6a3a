import asyncio

import pytest

from app import errors
from app.errors import (
    AlreadyResolved,
    ConfigurationError,
    DatabaseUnavailable,
    Fenced,
    FieldError,
    Invalid,
    PerdureError,
)

# The table of problems in the API's contract.
PROBLEMS = {
    "invalid-request": 422,
    "agent-not-found": 422,
    "idempotency-key-reused": 422,
    "not-found": 404,
    "method-not-allowed": 405,
    "unsupported-media-type": 415,
    "too-large": 413,
    "already-resolved": 409,
    "stale-arguments": 409,
    "run-ended": 409,
    "not-resumable": 409,
    "target-busy": 409,
    "message-delivered": 409,
    "wait-closed": 410,
    "unauthorized": 401,
    "forbidden": 403,
    "rate-limited": 429,
    "queue-full": 429,
    "database-unavailable": 503,
    "internal": 500,
}


def find_leaves(kind: type[PerdureError]) -> list[type[PerdureError]]:
    below = [sub for sub in kind.__subclasses__() if sub.__module__ == errors.__name__]
    return [leaf for sub in below for leaf in find_leaves(sub)] or [kind]


def test_the_tree_has_every_problem_of_the_contract_once() -> None:
    leaves = find_leaves(PerdureError)

    assert sorted((leaf.code, leaf.status) for leaf in leaves) == sorted(PROBLEMS.items())
    assert all(leaf.title for leaf in leaves)


def test_the_drawing_of_the_tree_names_every_class() -> None:
    drawing = errors.__doc__ or ""

    for leaf in find_leaves(PerdureError):
        line = next(line for line in drawing.splitlines() if f" {leaf.__name__} " in line)
        assert line.split(f" {leaf.__name__} ")[1].strip().startswith((leaf.code, str(leaf.status)))
        assert leaf.code in line


def test_an_error_carries_what_its_problem_document_needs() -> None:
    error = AlreadyResolved("It was denied.", hint="Read the wait.", extra={"wait": {"id": "w"}})

    assert str(error) == error.detail == "It was denied."
    assert error.hint == "Read the wait."
    assert error.extra == {"wait": {"id": "w"}}


def test_an_invalid_request_names_its_fields() -> None:
    error = Invalid("2 fields are wrong.", errors=[FieldError("limits.turns", "must be positive")])

    assert error.errors == (FieldError("limits.turns", "must be positive"),)


def test_an_unavailable_database_says_when_to_come_back() -> None:
    assert DatabaseUnavailable("Try again.", retry_after=3).retry_after == 3


def test_a_refused_start_shows_each_problem_on_its_own_line() -> None:
    error = ConfigurationError("It cannot start:", ["a is wrong", "b is wrong"], hint="See c.")

    assert str(error) == "It cannot start:\n  a is wrong\n  b is wrong\nSee c."


async def test_a_fenced_write_passes_through_code_that_catches_exceptions() -> None:
    async def step() -> None:
        try:
            raise Fenced
        except Exception:  # noqa: BLE001 - what a step around a tool does
            pytest.fail("swallowed")

    with pytest.raises(Fenced):
        await asyncio.gather(step())
