"""The pages."""

from typing import Annotated, Any, TypeVar, get_args

from fastapi import APIRouter, Query
from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from app.domain.events import EVENTS
from app.http.console import conversation, timeline
from app.http.console.rendering import HEADERS, Page
from app.http.holding import ENDED
from app.http.parts import Id, TheServices
from app.http.problems import invalid
from app.http.routing import Route
from app.http.schemas.queries import ListQuery, RulesQuery, RunsQuery, Status
from app.services import views_console, views_fleet, views_inbox, views_rules, views_story
from app.services.context import Services
from app.services.views_console import Overview
from app.services.views_pages import Listing

routes = APIRouter(include_in_schema=False, route_class=Route)

Q = TypeVar("Q", bound=BaseModel)

# Short enough to be shown whole.
ALL = 200
Turn = Annotated[int | None, Query(alias="from", ge=1, le=2**31 - 2)]


@routes.get("/")
async def show_runs(request: Request, services: TheServices) -> Response:
    query = _query(request, RunsQuery)
    page = await views_console.list_runs(services, query.listing("runs"))
    agents = await views_fleet.list_agents(services, Listing("agents", ALL))
    context = {
        "page": page,
        "query": query.model_dump(exclude_none=True, mode="json"),
        "statuses": get_args(Status),
        "agents": [agent["name"] for agent in agents["data"]],
    }
    return await _page(request, services, "runs.html", "runs", **context)


@routes.get("/runs")
async def show_all_runs() -> Response:
    return RedirectResponse("/", 308, HEADERS)


@routes.get("/runs/{id}")
async def show_run(request: Request, id: Id, services: TheServices, first: Turn = None) -> Response:
    story = await views_story.get_story(services, id, first)
    lines = timeline.lines(story.turns, story.calls, story.waits, story.now)
    context = {
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
    return await _page(request, services, "one_run.html", "runs", **context)


@routes.get("/inbox")
async def show_inbox(request: Request, services: TheServices) -> Response:
    query = _query(request, ListQuery)
    page = await views_inbox.list_asking(services, query.listing("inbox"))
    unknown = await views_inbox.list_unknown(services)
    context = {"page": page, "unknown": unknown, "now": await views_console.now(services)}
    return await _page(request, services, "inbox.html", "inbox", **context)


@routes.get("/waits/{id}")
async def show_wait(request: Request, id: Id, services: TheServices) -> Response:
    wait = await views_inbox.get_case(services, id)
    return await _page(request, services, "one_wait.html", "inbox", wait=wait)


@routes.get("/workers")
async def show_workers(request: Request, services: TheServices) -> Response:
    page = await views_fleet.list_workers(services, Listing("workers", ALL))
    now = await views_console.now(services)
    return await _page(request, services, "workers.html", "workers", page=page, now=now)


@routes.get("/agents")
async def show_agents(request: Request, services: TheServices) -> Response:
    agents = await views_fleet.list_agents(services, Listing("agents", ALL))
    tools = await views_fleet.list_tools(services, Listing("tools", 10 * ALL))
    context = {"agents": agents, "tools": tools["data"]}
    return await _page(request, services, "agents.html", "agents", **context)


@routes.get("/rules")
async def show_rules(request: Request, services: TheServices) -> Response:
    query = _query(request, RulesQuery)
    page = await views_rules.list_rules(services, query.listing("rules"))
    return await _page(request, services, "rules.html", "rules", page=page)


async def _page(
    request: Request, services: Services, template: str, section: str, **context: Any
) -> Page:
    overview: Overview = request.app.state.overview
    common = {
        "section": section,
        "overview": await overview.read(),
        "can_sign_out": request.app.state.key is not None,
    }
    return Page(template, common | context)


def _query(request: Request, model: type[Q]) -> Q:
    """A form sends each of its fields; an empty one asks for nothing."""
    given = {name: value for name, value in request.query_params.items() if value}
    try:
        return model.model_validate(given)
    except ValidationError as error:
        raise invalid(error) from None
