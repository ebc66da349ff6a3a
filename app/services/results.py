"""What a client says that its tool returned, held against what the tool's author declared."""

import asyncio
import logging
import re
from collections.abc import Mapping
from itertools import islice
from typing import Any

from jsonschema import Draft202012Validator, ValidationError
from jsonschema.exceptions import best_match

from app.errors import FieldError, Invalid

MOST_ERRORS = 20
LONGEST_PLACE = 200
LONGEST_MESSAGE = 300

log = logging.getLogger(__name__)


async def check(result: object, schema: Mapping[str, Any]) -> None:
    """In a thread: a large result takes a while."""
    found = await asyncio.to_thread(misfits, result, schema)
    if found:
        errors = [FieldError("result", message) for message in found]
        raise Invalid(f"The `result` does not fit the tool's: {found[0]}.", errors=errors)


def misfits(result: object, schema: Mapping[str, Any]) -> list[str]:
    validator = Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
    try:
        return [_told(error) for error in islice(validator.iter_errors(result), MOST_ERRORS)]
    except re.error as error:
        # Pydantic's own engine knows patterns that Python's does not.
        log.warning("a result is taken unchecked, its schema's pattern is no Python: %s", error)
        return []


def _told(error: ValidationError) -> str:
    """What does not fit and where; of several alternatives, the one it comes closest to."""
    closest = best_match([error]) or error
    place = ".".join(str(part) for part in closest.absolute_path)[:LONGEST_PLACE]
    message = closest.message
    if len(message) > LONGEST_MESSAGE:
        message = f"{message[:LONGEST_MESSAGE]}…"
    return f"{place}: {message}" if place else message
