from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from app.domain.webhooks import TYPES

PATHS = {
    "/v1/runs": {"get", "post"},
    "/v1/runs/{id}": {"get"},
    "/v1/runs/{id}/turns": {"get"},
    "/v1/runs/{id}/calls": {"get"},
    "/v1/runs/{id}/events": {"get"},
    "/v1/runs/{id}/messages": {"get", "post"},
    "/v1/runs/{id}/messages/{message_id}": {"delete"},
    "/v1/runs/{id}/cancel": {"post"},
    "/v1/runs/{id}/resume": {"post"},
    "/v1/runs/{id}/fork": {"post"},
    "/v1/waits": {"get"},
    "/v1/waits/{id}": {"get"},
    "/v1/waits/{id}/resolve": {"post"},
    "/v1/calls/{id}/settle": {"post"},
    "/v1/rules": {"get"},
    "/v1/rules/{id}": {"delete"},
    "/v1/webhooks/deliveries": {"get"},
    "/v1/webhooks/deliveries/{id}/redeliver": {"post"},
    "/v1/calls": {"get"},
    "/v1/agents": {"get"},
    "/v1/tools": {"get"},
    "/v1/workers": {"get"},
    "/v1/sessions/{id}": {"get"},
    "/v1/sessions/{id}/transcript": {"get"},
    "/health/live": {"get"},
    "/health/ready": {"get"},
}


@pytest.fixture
async def document(http: httpx.AsyncClient) -> dict[str, Any]:
    response = await http.get("/openapi.json")
    assert response.status_code == 200
    found: dict[str, Any] = response.json()
    return found


def operations(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for path in document["paths"].values():
        yield from path.values()


def references(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for name, item in value.items():
            if name == "$ref":
                yield item
            else:
                yield from references(item)
    elif isinstance(value, list):
        for item in value:
            yield from references(item)


async def test_the_paths_are_those_of_the_contract(document: dict[str, Any]) -> None:
    assert {path: set(item) for path, item in document["paths"].items()} == PATHS


async def test_each_operation_has_a_name_of_its_own(document: dict[str, Any]) -> None:
    names = [operation["operationId"] for operation in operations(document)]

    assert len(set(names)) == len(names)
    assert all(name.isalpha() for name in names)


async def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    schemas = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}

    assert set(references(document)) <= schemas


async def test_every_operation_tells_its_problems(document: dict[str, Any]) -> None:
    for operation in operations(document):
        problem = operation["responses"]["default"]["content"]["application/problem+json"]
        assert problem["schema"] == {"$ref": "#/components/schemas/Problem"}
        assert "422" not in operation["responses"]


async def test_a_body_shows_its_fields(document: dict[str, Any]) -> None:
    run = document["components"]["schemas"]["RunBody"]
    resolve = document["paths"]["/v1/waits/{id}/resolve"]["post"]["requestBody"]
    forms = resolve["content"]["application/json"]["schema"]["oneOf"]

    assert set(run["required"]) == {"agent", "input"}
    assert run["additionalProperties"] is False
    assert [form["title"] for form in forms] == [
        "Approval",
        "Happened",
        "DidNotHappen",
        "Skip",
        "Input",
        "External",
    ]


async def test_the_log_is_a_page_or_a_stream(document: dict[str, Any]) -> None:
    events = document["paths"]["/v1/runs/{id}/events"]["get"]
    parameters = {each["name"]: each["in"] for each in events["parameters"]}

    assert set(events["responses"]["200"]["content"]) == {"application/json", "text/event-stream"}
    assert parameters == {
        "id": "path",
        "limit": "query",
        "after": "query",
        "deltas": "query",
        "last-event-id": "header",
    }


async def test_what_is_sent_to_callbacks_is_described(document: dict[str, Any]) -> None:
    (posts,) = {tuple(webhook) for webhook in document["webhooks"].values()}

    assert posts == ("post",)
    assert set(document["webhooks"]) == set(TYPES)
    for webhook in document["webhooks"].values():
        body = webhook["post"]["requestBody"]["content"]["application/json"]["schema"]
        assert body == {"$ref": "#/components/schemas/Webhook"}
        assert set(webhook["post"]["responses"]) == {"204", "default"}
