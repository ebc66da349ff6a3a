"""What a person may meet is in the manual, and nothing there is made up."""

import inspect
import json
import re
from collections.abc import Callable, Iterable
from typing import Any, get_args

import pytest
from jsonschema import Draft202012Validator

from app import errors
from app.cli.remote import watching
from app.domain import webhooks
from app.domain.events import EVENTS
from app.domain.limits import Limits
from app.domain.states import ENDED, Status, WaitState
from app.http.application import build
from app.http.console.timeline import MARKED
from app.http.parts import Parts
from app.http.schemas import answers, fleet, requests
from app.tools.agent import Agent
from app.tools.policy import Options
from tests.support.environment import ROOT
from tests.support.pages import DOCS, Block, all_blocks

FUNCTIONS = ROOT / "migrations" / "functions"
# What writes the log. Others, and `perdure.tell` itself, name events only to read them.
TELLING = [
    *sorted(path for path in FUNCTIONS.glob("*.sql") if path.name != "events.sql"),
    *sorted((ROOT / "app" / "durable").rglob("*.py")),
    *sorted((ROOT / "app" / "services").rglob("*.py")),
]
FAMILIES = "run|message|model|call|wait|compensation|limit"
METHODS = {"get", "post", "put", "patch", "delete"}


def read(page: str) -> str:
    return (DOCS / page).read_text()


def headings(page: str) -> list[str]:
    return re.findall(r"^#+ (.+)$", read(page), re.MULTILINE)


def rows(page: str, section: str) -> list[str]:
    """The first cells, where they are code, of the tables below a heading."""
    text = re.split(rf"^#+ {re.escape(section)}$", read(page), flags=re.MULTILINE)[1]
    body = re.split(r"^#+ ", text, flags=re.MULTILINE)[0]
    cells = re.findall(r"^\| (`[^|]+`) \|", body, re.MULTILINE)
    return [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]


def literals(annotation: object) -> set[str]:
    return set(get_args(annotation))


def document() -> dict[str, Any]:
    parts = Parts(services=None, hub=None, is_registered=lambda: True)  # type: ignore[arg-type]
    return build(parts, key=None).openapi()


def problems(kind: type[errors.PerdureError] = errors.PerdureError) -> Iterable[str]:
    for below in kind.__subclasses__():
        if "code" in vars(below):
            yield below.code
        yield from problems(below)


def told_events() -> set[str]:
    """As the code tells them, those whose names it puts together included."""
    text = "\n".join(path.read_text() for path in TELLING)
    told = set(re.findall(rf"""["']((?:{FAMILIES})\.[a-z_]+)["']""", text))
    states = literals(answers.Call.model_fields["state"].annotation)
    ends = {f"call.{state}" for state in states - {"waiting", "ready"}}
    ends |= {f"compensation.{end}" for end in ("started", "succeeded", "failed")}
    return told | ends | {f"run.{status}" for status in ENDED}


INTERFACE: dict[str, Callable[[], tuple[Iterable[str], Iterable[str]]]] = {
    "problems": lambda: (
        [name for name in headings("errors.md") if re.fullmatch(r"[a-z-]+", name)],
        problems(),
    ),
    "reasons": lambda: (rows("errors.md", "Reasons of failed runs"), reasons()),
    "run states": lambda: (rows("api.md", "Run states"), literals(Status)),
    "call states": lambda: (
        rows("api.md", "Call states"),
        literals(answers.Call.model_fields["state"].annotation),
    ),
    "wait states": lambda: (rows("api.md", "Wait states"), literals(WaitState)),
    "message states": lambda: (
        rows("api.md", "Message states"),
        literals(answers.Message.model_fields["state"].annotation),
    ),
    "endpoints": lambda: (
        [name for name in headings("api.md") if re.match(r"[A-Z]+ /", name)],
        (
            f"{method.upper()} {path}"
            for path, methods in document()["paths"].items()
            for method in methods.keys() & METHODS
        ),
    ),
    "options of a tool": lambda: (rows("tools.md", "Options of a tool"), Options.__annotations__),
    "options of an agent": lambda: (
        rows("tools.md", "Options of an agent"),
        (name for name in inspect.signature(Agent).parameters),
    ),
    "fields of a run": lambda: (
        rows("api.md", "POST /v1/runs"),
        requests.RunBody.model_fields,
    ),
}


def reasons() -> list[str]:
    """As the table of runs takes them."""
    (found,) = re.findall(
        r"reason text check \(reason in \((.*?)\)\)",
        (ROOT / "migrations/versions/2026_11_29_pre_spine.sql").read_text(),
        re.DOTALL,
    )
    return re.findall(r"'(\w+)'", found)


@pytest.mark.parametrize("what", INTERFACE)
def test_each_is_in_the_manual_and_no_other(what: str) -> None:
    documented, real = INTERFACE[what]()
    assert sorted(documented) == sorted(set(real))


def test_each_event_is_in_the_manual_and_no_other() -> None:
    assert set(rows("api.md", "Events")) == told_events()


def test_each_event_is_known_where_it_is_read_and_no_other() -> None:
    assert sorted(EVENTS) == sorted(told_events())
    assert {*MARKED, *watching.STYLES, *watching.ASKING, *webhooks.TYPES} <= set(EVENTS)


def test_each_limit_is_named() -> None:
    for name in inspect.signature(Limits).parameters:
        assert f"`{name}`" in read("tools.md"), name


def notes(what: str) -> list[Block]:
    return [block for block in all_blocks() if block.said(what) is not None]


@pytest.mark.parametrize("block", notes("shape"), ids=str)
def test_a_shape_has_all_fields_of_its_answer(block: Block) -> None:
    name = block.said("shape") or ""
    model = getattr(answers, name, None) or getattr(fleet, name)
    assert sorted(json.loads(block.code)) == sorted(model.model_fields)


@pytest.mark.parametrize("block", notes("request"), ids=str)
def test_a_request_is_one_that_is_accepted(block: Block) -> None:
    method, _, path = (block.said("request") or "").partition(" ")
    operation = document()["paths"][path][method.lower()]
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    accepts(schema, json.loads(block.code))


def accepts(schema: dict[str, Any], body: object) -> None:
    whole = {**schema, "components": document()["components"]}
    errors_found = [error.message for error in Draft202012Validator(whole).iter_errors(body)]
    assert errors_found == []
