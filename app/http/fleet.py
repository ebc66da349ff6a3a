"""What there is: agents, tools, workers, sessions."""

from typing import Annotated

from fastapi import Depends, Query

from app.http.answers import Json
from app.http.parts import Id, TheServices
from app.http.routing import router
from app.http.schemas import answers, fleet
from app.http.schemas.queries import ListQuery, no_query
from app.services import views_fleet, views_sessions

routes = router("/v1", "fleet")

List = Annotated[ListQuery, Query()]


@routes.get("/agents", operation_id="listAgents", response_model=answers.Page[fleet.Agent])
async def list_agents(services: TheServices, query: List) -> Json:
    return Json(await views_fleet.list_agents(services, query.listing("agents")))


@routes.get("/tools", operation_id="listTools", response_model=answers.Page[fleet.Tool])
async def list_tools(services: TheServices, query: List) -> Json:
    return Json(await views_fleet.list_tools(services, query.listing("tools")))


@routes.get("/workers", operation_id="listWorkers", response_model=answers.Page[fleet.Worker])
async def list_workers(services: TheServices, query: List) -> Json:
    return Json(await views_fleet.list_workers(services, query.listing("workers")))


@routes.get(
    "/sessions/{id}",
    operation_id="getSession",
    response_model=fleet.Session,
    dependencies=[Depends(no_query)],
)
async def get_session(id: Id, services: TheServices) -> Json:
    return Json(await views_sessions.get_session(services, id))


@routes.get(
    "/sessions/{id}/transcript",
    operation_id="getTranscript",
    response_model=fleet.Transcript,
    dependencies=[Depends(no_query)],
)
async def get_transcript(id: Id, services: TheServices) -> Json:
    return Json(await views_sessions.get_transcript(services, id))
