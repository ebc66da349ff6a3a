"""The two clients offer the same, and what they answer is typed."""

import inspect
import os
from datetime import UTC, datetime
from decimal import Decimal

import httpx
import pytest

from app import errors as service_errors
from app.client import AsyncPerdure, AsyncRun, Perdure, Run, StillRunning
from app.client.errors import PROBLEMS, AlreadyResolved, Invalid, Problem
from app.client.models import RunData
from tests.unit.client.service import RUN


def offered(thing: type) -> dict[str, str]:
    """The names that it has beyond those of any object, with what each may be given."""
    return {
        name: str(inspect.signature(method).replace(return_annotation=None))
        for name, method in inspect.getmembers(thing, inspect.isfunction)
        if not name.startswith("_")
    }


def parts(client: Perdure | AsyncPerdure) -> dict[str, type]:
    return {name: type(part) for name, part in vars(client).items() if hasattr(part, "carry_out")}


def answering(status: int, body: object) -> httpx.MockTransport:
    return httpx.MockTransport(lambda _request: httpx.Response(status, json=body))


def test_each_can_do_what_the_other_can() -> None:
    ordinary, awaited = parts(Perdure()), parts(AsyncPerdure())
    assert ordinary.keys() == awaited.keys()
    assert {"runs", "approvals", "waits", "calls", "rules", "deliveries"} <= ordinary.keys()
    for name in ordinary:
        assert offered(ordinary[name]) == offered(awaited[name]), name
    assert offered(Run) == offered(AsyncRun)
    assert offered(ordinary["runs"])["wait"].startswith("(run: str, timeout: float | None = None")


def test_every_problem_of_the_service_has_a_class() -> None:
    codes = {
        found.code
        for found in vars(service_errors).values()
        if inspect.isclass(found)
        and issubclass(found, service_errors.PerdureError)
        and hasattr(found, "code")
    }
    assert PROBLEMS.keys() == codes


async def test_a_problem_carries_what_the_service_said() -> None:
    document = {
        "type": "/problems/invalid-request",
        "title": "The request is invalid",
        "status": 422,
        "detail": "Correct `agent`: must be given.",
        "hint": "Look.",
        "errors": [{"field": "agent", "message": "must be given"}],
    }
    with (
        Perdure(transport=answering(422, document)) as client,
        pytest.raises(Invalid) as raised,
    ):
        client.runs.submit("", "")
    problem = raised.value
    assert (problem.type, problem.status, problem.hint) == (document["type"], 422, "Look.")
    assert str(problem) == problem.detail == document["detail"]
    assert [(each.field, each.message) for each in problem.errors] == [("agent", "must be given")]

    held = {"type": "/problems/already-resolved", "wait": {"id": "wait_1"}}
    async with AsyncPerdure(transport=answering(409, held)) as client_:
        with pytest.raises(AlreadyResolved) as other:
            await client_.waits.answer("wait_1", "Yes")
    assert other.value.wait == {"id": "wait_1"}


def test_an_answer_that_is_not_the_service_s_is_told_as_that() -> None:
    page = httpx.MockTransport(lambda _request: httpx.Response(200, text="<html>"))
    with Perdure(transport=page) as client, pytest.raises(Problem, match="address of a Perdure"):
        client.runs.get("run_1")


async def test_what_a_later_version_adds_is_kept() -> None:
    later = RUN | {"status": "dreaming", "dreams": [1]}
    with Perdure(transport=answering(200, later)) as client:
        run = client.runs.get("run_1")
    async with AsyncPerdure(transport=answering(200, later)) as client_:
        same = await client_.runs.get("run_1")

    for found in (run, same):
        assert isinstance(found, RunData)
        assert (found.status, found.raw["dreams"], found.turn_count) == ("dreaming", [1], 1)
        assert found.usage.cost_usd == Decimal("0.0010")
        assert found.created_at == datetime(2026, 11, 30, tzinfo=UTC)
    with pytest.raises(ValueError, match="frozen"):
        setattr(run, "status", "succeeded")  # noqa: B010


async def test_lists_go_on_to_their_last_page() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        assert request.url.params["status"] == "waiting"
        after = int(request.url.params.get("after", "0"))
        runs = [RUN | {"id": f"run_{after + n}"} for n in range(2)]
        return httpx.Response(
            200, json={"data": runs, "next": str(after + 2) if not after else None}
        )

    wanted = [f"run_{n}" for n in range(4)]
    with Perdure(transport=httpx.MockTransport(answer)) as client:
        assert [run.id for run in client.runs.list(status="waiting")] == wanted
    async with AsyncPerdure(transport=httpx.MockTransport(answer)) as client_:
        assert [run.id async for run in client_.runs.list(status="waiting")] == wanted


def test_waiting_ends_when_its_time_is_over() -> None:
    running = answering(202, RUN | {"status": "running"})
    with Perdure(transport=running) as client, pytest.raises(TimeoutError) as raised:
        client.runs.get("run_1").wait(timeout=0.05)
    assert isinstance(raised.value, StillRunning)
    assert raised.value.run.status == "running"


def test_waiting_may_end_when_somebody_is_asked() -> None:
    wait = {"id": "wait_1", "run": "run_1", "kind": "approval"}
    timer = {"id": "wait_2", "run": "run_1", "kind": "timer"}
    asking = RUN | {"status": "waiting", "waiting_for": [timer, wait]}
    with Perdure(transport=answering(202, asking)) as client:
        run = client.runs.get("run_1").wait(until="asked")
    assert [found.id for found in run.asks] == ["wait_1"]


def test_the_place_and_the_key_come_from_arguments_or_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json=RUN)

    for name in [name for name in os.environ if name.startswith("PERDURE_")]:
        monkeypatch.delenv(name)
    Perdure(transport=httpx.MockTransport(answer)).runs.get("a")
    monkeypatch.setenv("PERDURE_URL", "https://perdure.example/under/")
    monkeypatch.setenv("PERDURE_API_KEY", "k1")
    Perdure(transport=httpx.MockTransport(answer)).runs.get("a")
    Perdure("http://[::1]:1", "k2", transport=httpx.MockTransport(answer)).runs.get("a")

    assert [(str(r.url), r.headers.get("authorization")) for r in seen] == [
        ("http://127.0.0.1:8000/v1/runs/a", None),
        ("https://perdure.example/under/v1/runs/a", "Bearer k1"),
        ("http://[::1]:1/v1/runs/a", "Bearer k2"),
    ]
    for url in ("perdure.example", "ftp://perdure.example"):
        with pytest.raises(ValueError, match="PERDURE_URL"):
            Perdure(url)
