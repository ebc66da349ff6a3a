"""Names and texts that go into what the model sees of a tool."""

import inspect
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic.json_schema import GenerateJsonSchema

# Long enough for any real message, short enough that a refused input is not sent back whole.
_LONGEST_PLACE = 64
_LONGEST_MESSAGE = 300
_MOST_PROBLEMS = 10


class _WithoutFieldTitles(GenerateJsonSchema):
    def field_title_should_be_set(self, schema: object) -> bool:
        return False


def json_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The schema of a model's input without the titles that only repeat the names."""
    schema = model.model_json_schema(schema_generator=_WithoutFieldTitles)
    schema.pop("title", None)
    return schema


def first_paragraph(documented: object) -> str:
    text = inspect.getdoc(documented) or ""
    return " ".join(text.split("\n\n")[0].split())


def problems(error: ValidationError) -> str:
    """What does not fit and where, without the input."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    lines = [_problem(item["loc"], item["msg"]) for item in found[:_MOST_PROBLEMS]]
    if len(found) > _MOST_PROBLEMS:
        lines.append(f"and {len(found) - _MOST_PROBLEMS} more")
    return "; ".join(lines)


def _problem(place: tuple[int | str, ...], message: str) -> str:
    path = ".".join(_shortened(str(part), _LONGEST_PLACE) for part in place)
    text = _shortened(message, _LONGEST_MESSAGE)
    return f"{path}: {text}" if path else text


def _shortened(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"
