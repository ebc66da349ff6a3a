"""A standing rule as it is given together with an approval."""

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from app.http.schemas.requests import Instant, Name, Strict


def _to_number(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("must be a number")
    return value


Number = Annotated[Any, BeforeValidator(_to_number), WithJsonSchema({"type": "number"})]


class BoundsBody(Strict):
    """What an argument must keep within; all that is given must hold."""

    max: Number = None
    min: Number = None
    equals: Any = None
    in_: Annotated[list[Any], Field(alias="in", min_length=1, max_length=1000)] = Field([])

    @model_validator(mode="after")
    def _bounds_something(self) -> Self:
        if not self.model_fields_set:
            raise ValueError("must have one of max, min, equals, in")
        return self


class RuleBody(Strict):
    scope: Literal["run", "session", "agent"]
    when: Annotated[dict[Name, BoundsBody], Field(max_length=100)]
    tool: Name | None = None
    expires_at: Instant | None = None
