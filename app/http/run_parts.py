"""What a run is made of, in pages."""

from typing import Annotated

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from app.http.answers import Json
from app.http.parts import Id, TheHub, TheLastEvent, TheServices
from app.http.preferences import wants_stream
from app.http.routing import router
from app.http.schemas import answers
from app.http.schemas.queries import EventsQuery, PartsQuery
from app.http.sse import STREAM, VARY, EventStream
from app.services import views_parts

routes = router("/v1/runs/{id}", "runs")

Parts = Annotated[PartsQuery, Query()]


@routes.get("/turns", operation_id="listTurns", response_model=answers.Page[answers.Turn])
async def list_turns(id: Id, services: TheServices, query: Parts) -> Json:
    return Json(await views_parts.list_turns(services, id, query.listing("turns", run=id)))


@routes.get("/calls", operation_id="listCalls", response_model=answers.Page[answers.Call])
async def list_calls(id: Id, services: TheServices, query: Parts) -> Json:
    return Json(await views_parts.list_calls(services, id, query.listing("calls", run=id)))


@routes.get("/messages", operation_id="listMessages", response_model=answers.Page[answers.Message])
async def list_messages(id: Id, services: TheServices, query: Parts) -> Json:
    return Json(await views_parts.list_messages(services, id, query.listing("messages", run=id)))


@routes.get(
    "/events", operation_id="listEvents", response_model=answers.Events, responses={200: STREAM}
)
async def list_events(
    request: Request,
    id: Id,
    services: TheServices,
    hub: TheHub,
    query: Annotated[EventsQuery, Query()],
    last_event: TheLastEvent,
) -> Response:
    """As a page, or with `Accept: text/event-stream` as a stream that goes on with the run."""
    if not wants_stream(request):
        page = await views_parts.list_events(services, id, query.after, query.limit)
        return Json(page, headers=VARY)
    after, field = (query.after, "after") if last_event is None else (last_event, "Last-Event-ID")
    await views_parts.check_place(services, id, after, field)
    over = await views_parts.turns_over(services, id) if query.deltas else None
    return EventStream(hub.streams, id, after, over)
