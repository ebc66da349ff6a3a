"""The pages."""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, TypeVar, get_args

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from app.domain.canonical import printed
from app.domain.events import EVENTS
from app.domain.states import ENDED, Status
from app.http.console import conversation, timeline
from app.http.console.rendering import HEADERS, Page
from app.http.parts import Id, TheServices
from app.http.problems import invalid
from app.http.routing import Route, has_data
from app.http.schemas.queries import ListQuery, RulesQuery, RunsQuery, Text
from app.services import (
    views_console,
    views_fleet,
    views_inbox,
    views_parts,
    views_rules,
    views_story,
)
from app.services.context import Services
from app.services.views_console import Overview
from app.services.views_pages import Listing
from app.services.views_story import Story

routes = APIRouter(include_in_schema=False, route_class=Route)

Q = TypeVar("Q", bound=BaseModel)

# Of what the service has at hand whole.
ALL = 100_000
Turn = Annotated[int | None, Query(alias="from", ge=1, le=2**31 - 2)]


class InboxQuery(ListQuery):
    """`after` and `unknown`: where in its two lists. `call`: of the second, this one alone."""

    unknown: Annotated[str, Field(max_length=1000)] | None = None
    call: Text | None = None


@routes.get("/")
async def show_runs(request: Request, services: TheServices) -> Response:
    query = _query(request, RunsQuery)
    page = await views_console.list_runs(services, query.listing("runs"))
    agents = await views_fleet.list_agents(services, Listing("agents", ALL))
    context = {
        "page": page,
        "query": _filled(query),
        "statuses": get_args(Status),
        "agents": [agent["name"] for agent in agents["data"]],
    }
    return await _page(request, services, "runs.html", "runs", context)


@routes.get("/runs")
async def show_all_runs() -> Response:
    return RedirectResponse("/", 308, HEADERS)


@routes.get("/runs/{id}")
async def show_run(request: Request, id: Id, services: TheServices, first: Turn = None) -> Response:
    story = await views_story.get_story(services, id, first)
    return await _page(request, services, "one_run.html", "runs", {}, partial(_told, story))


def _told(story: Story) -> dict[str, Any]:
    lines = timeline.lines(story.turns, story.calls, story.waits, story.now)
    return {
        "story": story,
        "run": story.run,
        "now": story.now,
        "items": conversation.conversation(story),
        "undone": conversation.undone(story),
        "waits": conversation.waits_by_call(story.waits),
        "lines": lines,
        "scale": timeline.Scale(span for line in lines for span in line.spans),
        "marks": timeline.marks(story.events),
        "has_ended": story.run["status"] in ENDED,
        "types": " ".join(EVENTS),
    }


@routes.get("/inbox")
async def show_inbox(request: Request, services: TheServices) -> Response:
    query = _query(request, InboxQuery)
    only = {} if query.call is None else {"call": query.call}
    told = Listing("unknown", query.limit, query.unknown, only, "unknown")
    context = {
        "page": await views_inbox.list_asking(services, Listing("inbox", query.limit, query.after)),
        "unknown": await views_inbox.list_unknown(services, told),
        "query": _filled(query),
    }
    return await _page(request, services, "inbox.html", "inbox", context)


@routes.get("/waits/{id}")
async def show_wait(request: Request, id: Id, services: TheServices) -> Response:
    wait = await views_inbox.get_case(services, id)
    return await _page(request, services, "one_wait.html", "inbox", {"wait": wait})


@routes.get("/calls/{id}")
async def get_whole_call(id: Id, services: TheServices) -> Response:
    """All of a call, for pages that show its beginning."""
    call = await views_parts.get_call(services, id)
    return Response(printed(call), media_type="application/json", headers=HEADERS)


@routes.get("/workers")
async def show_workers(request: Request, services: TheServices) -> Response:
    query = _query(request, ListQuery)
    page = await views_fleet.list_workers(services, query.listing("workers"))
    context = {"page": page, "query": _filled(query)}
    return await _page(request, services, "workers.html", "workers", context)


@routes.get("/agents")
async def show_agents(request: Request, services: TheServices) -> Response:
    query = _query(request, ListQuery)
    agents = await views_fleet.list_agents(services, query.listing("agents"))
    tools = await views_fleet.list_tools(services, Listing("tools", ALL))
    context = {"agents": agents, "tools": tools["data"], "query": _filled(query)}
    return await _page(request, services, "agents.html", "agents", context)


@routes.get("/rules")
async def show_rules(request: Request, services: TheServices) -> Response:
    query = _query(request, RulesQuery)
    page = await views_rules.list_rules(services, query.listing("rules"))
    context = {"page": page, "query": _filled(query)}
    return await _page(request, services, "rules.html", "rules", context)


async def _page(
    request: Request,
    services: Services,
    template: str,
    section: str,
    context: dict[str, Any],
    tell: Callable[[], dict[str, Any]] = dict,
) -> Page:
    """`tell`: makes the rest of the context, beside the event loop."""
    overview: Overview = request.app.state.overview
    common = {
        "section": section,
        "overview": await overview.read(),
        "can_sign_out": request.app.state.key is not None,
    }
    has_data(request)
    # A long page takes its time, which streams and decisions of others shall not wait for.
    return await run_in_threadpool(lambda: Page(template, common | context | tell()))


def _filled(query: BaseModel) -> dict[str, Any]:
    """What was asked for, to be asked for again of the next page."""
    return query.model_dump(exclude_unset=True, exclude_none=True, mode="json")


def _query(request: Request, model: type[Q]) -> Q:
    """A form sends each of its fields; an empty one asks for nothing."""
    given = {name: value for name, value in request.query_params.items() if value}
    try:
        return model.model_validate(given)
    except ValidationError as error:
        raise invalid(error) from None
