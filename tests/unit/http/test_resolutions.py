from typing import Any

import pytest

from app.errors import Invalid
from app.http.schemas.resolutions import resolution, settlement


@pytest.mark.parametrize(
    ("kind", "body", "said"),
    [
        ("approval", {"decision": "allow"}, {"decision": "allow"}),
        (
            "approval",
            {"decision": "deny", "reason": "no", "arguments_hash": "ab"},
            {"decision": "deny", "reason": "no", "arguments_hash": "ab"},
        ),
        ("approval", {"decision": "deny", "reason": None}, {"decision": "deny"}),
        ("approval", {"decision": "deny", "rule": None}, {"decision": "deny"}),
        (
            "approval",
            {"decision": "allow", "rule": {"scope": "run", "when": {"n": {"in": [1]}}}},
            {"decision": "allow", "rule": {"scope": "run", "when": {"n": {"in": [1]}}}},
        ),
        (
            "outcome",
            {"outcome": "happened", "result": None},
            {"outcome": "happened", "result": None},
        ),
        (
            "outcome",
            {"outcome": "happened", "result": {"a": None}},
            {"outcome": "happened", "result": {"a": None}},
        ),
        ("outcome", {"outcome": "did_not_happen"}, {"outcome": "did_not_happen"}),
        ("outcome", {"outcome": "skip", "reason": "?"}, {"outcome": "skip", "reason": "?"}),
        ("input", {"text": "blue"}, {"text": "blue"}),
        ("external", {"result": 3, "is_error": True}, {"result": 3, "is_error": True}),
        ("external", {"result": 3, "is_error": False}, {"result": 3}),
        ("external", {"result": None}, {"result": None}),
    ],
)
def test_each_kind_has_its_forms(kind: str, body: dict[str, Any], said: dict[str, Any]) -> None:
    assert resolution(kind, body) == (said, None)
    assert resolution(kind, body | {"on_behalf_of": "ann"}) == (said, "ann")


@pytest.mark.parametrize(
    ("kind", "body", "field"),
    [
        ("approval", {}, "decision"),
        ("approval", {"decision": "maybe"}, "decision"),
        ("approval", {"decision": True}, "decision"),
        ("approval", {"decision": "allow", "rule": {"scope": "run"}}, "rule.when"),
        ("approval", {"decision": "deny", "rule": {"scope": "run", "when": {}}}, "rule"),
        ("approval", {"decision": "allow", "text": "x"}, "text"),
        ("approval", {"decision": "allow", "arguments_hash": 1}, "arguments_hash"),
        ("approval", {"decision": "allow", "on_behalf_of": ""}, "on_behalf_of"),
        ("outcome", {}, "outcome"),
        ("outcome", {"decision": "allow"}, "outcome"),
        ("outcome", {"outcome": "failed"}, "outcome"),
        ("outcome", {"outcome": {"happened": 1}}, "outcome"),
        ("outcome", {"outcome": "happened"}, "result"),
        ("outcome", {"outcome": "happened", "result": 1, "reason": "x"}, "reason"),
        ("outcome", {"outcome": "did_not_happen", "result": 1}, "result"),
        ("outcome", {"outcome": "skip", "result": 1}, "result"),
        ("input", {}, "text"),
        ("input", {"text": " "}, "text"),
        ("input", {"text": 1}, "text"),
        ("external", {}, "result"),
        ("external", {"result": 1, "is_error": "no"}, "is_error"),
        ("timer", {}, "id"),
        ("child", {"result": 1}, "id"),
    ],
)
def test_any_other_form_is_refused_by_field(kind: str, body: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as refused:
        resolution(kind, body)

    assert [error.field for error in refused.value.errors] == [field]


def test_a_settlement_has_the_forms_of_an_outcome() -> None:
    assert settlement({"outcome": "happened", "result": 1}) == {"outcome": "happened", "result": 1}
    assert settlement({"outcome": "skip", "reason": None}) == {"outcome": "skip"}
