"""What may be said to a wait, by its kind."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, ValidationInfo, field_validator

from app.domain.canonical import Json
from app.http.problems import invalid, refuse
from app.http.schemas.requests import Name, Reason, Said, Strict
from app.http.schemas.rules import RuleBody


class Resolution(Strict):
    on_behalf_of: Name | None = None


class Approval(Resolution):
    decision: Literal["allow", "deny"]
    reason: Reason | None = None
    arguments_hash: Annotated[str, Field(max_length=128)] | None = None
    rule: RuleBody | None = None

    @field_validator("rule")
    @classmethod
    def _goes_with_allow(cls, rule: RuleBody | None, info: ValidationInfo) -> RuleBody | None:
        if rule is not None and info.data.get("decision") == "deny":
            raise ValueError("goes with the decision allow only")
        return rule


class Happened(Resolution):
    outcome: Literal["happened"]
    result: Any


class DidNotHappen(Resolution):
    outcome: Literal["did_not_happen"]


class Skip(Resolution):
    outcome: Literal["skip"]
    reason: Reason | None = None


class Input(Resolution):
    text: Said


class External(Resolution):
    result: Any
    is_error: bool | None = None


OUTCOMES: Mapping[str, type[Resolution]] = {
    "happened": Happened,
    "did_not_happen": DidNotHappen,
    "skip": Skip,
}
RESOLUTIONS = (Approval, *OUTCOMES.values(), Input, External)
REFERENCE = "#/components/schemas/{model}"


def one_of(*forms: type[Resolution]) -> dict[str, Json]:
    """As OpenAPI shows them; what they refer to stands among the document's own schemas."""
    schemas = [form.model_json_schema(ref_template=REFERENCE) for form in forms]
    for schema in schemas:
        schema.pop("$defs", None)
    return {"oneOf": schemas}


def resolution(kind: str, body: Mapping[str, Json]) -> tuple[dict[str, Json], str | None]:
    """What was said, without what was left open, and on whose behalf."""
    said = _said(_model(kind, body), body)
    return said, said.pop("on_behalf_of", None)


def settlement(body: Mapping[str, Json]) -> dict[str, Json]:
    """As for an `outcome` wait, but nobody is asked here who could act for another."""
    if "on_behalf_of" in body:
        raise refuse("on_behalf_of", "is known only where a wait is resolved")
    return _said(_outcome(body), body)


def _model(kind: str, body: Mapping[str, Json]) -> type[Resolution]:
    match kind:
        case "approval":
            return Approval
        case "outcome":
            return _outcome(body)
        case "input":
            return Input
        case "external":
            return External
        case _:
            raise refuse("id", f"names a wait of kind {kind}, which nobody resolves over HTTP")


def _outcome(body: Mapping[str, Json]) -> type[Resolution]:
    said = body.get("outcome")
    model = OUTCOMES.get(said) if isinstance(said, str) else None
    if model is None:
        raise refuse("outcome", f"must be one of {', '.join(OUTCOMES)}")
    return model


def _said(model: type[Resolution], body: Mapping[str, Json]) -> dict[str, Json]:
    """A null says nothing, except as the result that it may be; nor does `is_error` if false."""
    try:
        model.model_validate(body)
    except ValidationError as error:
        raise invalid(error) from None
    unsaid = ("is_error", False)
    return {
        name: value
        for name, value in body.items()
        if name == "result" or (value is not None and (name, value) != unsaid)
    }
