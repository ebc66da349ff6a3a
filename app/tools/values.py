"""Python values as plain JSON."""

import math

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import to_jsonable_python

from app.domain.canonical import Json, encode, scrub
from app.tools.errors import UnencodableResult
from app.tools.schema import problems


def to_json(value: object, model: type[BaseModel] | None = None) -> Json:
    """Models, dataclasses, dates, decimals as JSON; bytes as base64, NaN and infinity as null."""
    try:
        fitted = value if model is None else _fit(value, model)
        plain = to_jsonable_python(scrub(fitted), bytes_mode="base64", inf_nan_mode="null")
        finished = _without_nan(scrub(plain))
        encode(finished)
    except ValidationError as error:
        raise UnencodableResult(f"does not fit {_name(model)}: {problems(error)}") from error
    except (ValueError, TypeError, RecursionError) as error:
        raise UnencodableResult(f"has no JSON form: {error}") from error
    except BaseException as error:
        # A generator, a validator or a property of the tool's own, which runs only here.
        raise UnencodableResult(f"cannot be read: {type(error).__name__}") from error
    return finished


def _fit(value: object, model: type[BaseModel]) -> BaseModel:
    fitted: BaseModel = TypeAdapter(model).validate_python(value, from_attributes=True)
    return fitted


def _name(model: type[BaseModel] | None) -> str:
    return "its model" if model is None else model.__name__


def _without_nan(value: Json) -> Json:
    match value:
        case float():
            return value if math.isfinite(value) else None
        case dict():
            return {key: _without_nan(item) for key, item in value.items()}
        case list():
            return [_without_nan(item) for item in value]
        case _:
            return value
