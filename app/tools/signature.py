"""From a function's signature to what may be passed to it."""

import inspect
import re
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.errors import PydanticUserError

from app.tools.context import ToolContext
from app.tools.errors import Flaw
from app.tools.schema import json_schema

_CONTEXT_NAME = "ctx"
_STRICT = ConfigDict(extra="forbid", allow_inf_nan=False, protected_namespaces=())


@dataclass(frozen=True)
class Signature:
    """The parameters the model fills, and the one that Perdure fills."""

    function: Callable[..., Any]
    model: type[BaseModel]
    names: tuple[str, ...]
    context: str | None
    input_schema: dict[str, Any]

    def validate(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Checked arguments in JSON form, defaults filled in."""
        checked = self.model.model_validate(arguments)
        stored: dict[str, Any] = checked.model_dump(mode="json", by_alias=True, warnings="none")
        return stored

    def bind(self, ctx: ToolContext, arguments: Mapping[str, Any]) -> Callable[[], object]:
        """The call of the function with stored JSON arguments, ready to be made."""
        checked = self.model.model_validate(arguments)
        values = {name: getattr(checked, _field(place)) for place, name in enumerate(self.names)}
        if self.context is not None:
            values[self.context] = ctx
        return partial(self.function, **values)


def read(function: Callable[..., Any], scope: Mapping[str, Any]) -> Signature:
    """`scope` holds the local names where the tool is declared, for its annotations."""
    scope = {**getattr(inspect.unwrap(function), "__globals__", {}), **scope}
    parameters = list(inspect.signature(function).parameters.values())
    for parameter in parameters:
        _check_kind(parameter)
    contexts = [p.name for place, p in enumerate(parameters) if _is_context(p, place, scope)]
    if len(contexts) > 1:
        raise Flaw(f"it takes two contexts, {' and '.join(contexts)}; keep one")
    filled = [parameter for parameter in parameters if parameter.name not in contexts]
    hints = _hints(filled, scope)
    model = _model(filled, hints)
    names = tuple(parameter.name for parameter in filled)
    return Signature(function, model, names, next(iter(contexts), None), _schema(model))


def _check_kind(parameter: inspect.Parameter) -> None:
    match parameter.kind:
        case inspect.Parameter.VAR_POSITIONAL | inspect.Parameter.VAR_KEYWORD:
            raise Flaw(f"{parameter} is open-ended; name each parameter, the model needs a schema")
        case inspect.Parameter.POSITIONAL_ONLY:
            raise Flaw(f"parameter {parameter.name!r} is positional-only; remove the '/'")
        case _:
            return


def _is_context(parameter: inspect.Parameter, place: int, scope: Mapping[str, Any]) -> bool:
    if _names_context(parameter.annotation, scope):
        return True
    if parameter.name != _CONTEXT_NAME:
        return False
    if place == 0:
        return True
    raise Flaw(f"{_CONTEXT_NAME!r} is the name of the context; put it first or rename it")


def _names_context(annotation: object, scope: Mapping[str, Any]) -> bool:
    """Also for a string whose name was imported for type checking only."""
    if isinstance(annotation, str):
        if re.search(r"\bToolContext\b", annotation):
            return True
        annotation = scope.get(annotation)
    if annotation is ToolContext:
        return True
    return any(member is ToolContext for member in typing.get_args(annotation))


def _hints(filled: list[inspect.Parameter], scope: dict[str, Any]) -> dict[str, Any]:
    for parameter in filled:
        if parameter.annotation is inspect.Parameter.empty:
            raise Flaw(_unhinted(parameter.name))
    annotated = types.SimpleNamespace(
        __annotations__={parameter.name: parameter.annotation for parameter in filled}
    )
    try:
        return typing.get_type_hints(annotated, scope, include_extras=True)
    except (NameError, AttributeError, SyntaxError, TypeError) as error:
        raise Flaw(f"a type hint cannot be resolved: {error}") from error


def _unhinted(name: str) -> str:
    if name in ("self", "cls"):
        return f"it is a method (it takes {name!r}); declare tools as plain functions"
    return f"parameter {name!r} has no type hint; write for example `{name}: str`"


def _field(place: int) -> str:
    """Fields have names of our own: `json`, `copy` or `_x` are no names for a model's field."""
    return f"parameter_{place}"


def _model(filled: list[inspect.Parameter], hints: dict[str, Any]) -> type[BaseModel]:
    definitions: dict[str, Any] = {}
    for place, parameter in enumerate(filled):
        name = parameter.name
        required = parameter.default is inspect.Parameter.empty
        definitions[_field(place)] = (
            typing.Annotated[hints[name], Field(alias=name)],
            ... if required else parameter.default,
        )
    try:
        model = create_model("Arguments", __config__=_STRICT, **definitions)
    except (PydanticUserError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise Flaw(f"a parameter's type cannot come from JSON: {reason}") from error
    for place, parameter in enumerate(filled):
        _check_default(model, _field(place), parameter.name)
    return model


def _check_default(model: type[BaseModel], field: str, name: str) -> None:
    """A default is stored like any argument, so it must come back from JSON."""
    if model.model_fields[field].is_required():
        return
    checked = model.model_construct()
    try:
        stored = checked.model_dump(mode="json", include={field}, warnings="none")
        model.__pydantic_validator__.validate_assignment(checked, field, stored[field])
    except ValidationError as error:
        reason = error.errors()[0]["msg"]
        raise Flaw(f"the default of {name!r} does not fit its type: {reason}") from error
    except ValueError as error:
        raise Flaw(f"the default of {name!r} has no JSON form: {error}") from error


def _schema(model: type[BaseModel]) -> dict[str, Any]:
    try:
        return json_schema(model)
    except PydanticUserError as error:
        reason = str(error).splitlines()[0]
        raise Flaw(f"a parameter's type has no JSON schema: {reason}") from error
