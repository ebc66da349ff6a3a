"""Questions that runs are parked on, and outcomes that nobody knew."""

from typing import Annotated, Any

from fastapi import Body, Depends, Query

from app.http.answers import Json
from app.http.parts import Id, TheCaller, TheServices
from app.http.routing import router
from app.http.schemas import answers
from app.http.schemas.queries import CallsQuery, WaitsQuery, no_query
from app.http.schemas.resolutions import OUTCOMES, RESOLUTIONS, one_of, resolution, settlement
from app.services import calls, views_parts, views_waits, waits

routes = router("/v1", "waits")
NO_QUERY = [Depends(no_query)]

# Which of the forms is right depends on the wait, so the handler itself looks.
AnyResolution = Annotated[
    dict[str, Any],
    Body(json_schema_extra=one_of(*RESOLUTIONS)),
]
AnySettlement = Annotated[
    dict[str, Any],
    Body(json_schema_extra=one_of(*OUTCOMES.values())),
]


@routes.get("/waits", operation_id="listWaits", response_model=answers.Page[answers.Wait])
async def list_waits(services: TheServices, query: Annotated[WaitsQuery, Query()]) -> Json:
    return Json(await views_waits.list_waits(services, query.listing("waits")))


@routes.get(
    "/waits/{id}", operation_id="getWait", response_model=answers.Wait, dependencies=NO_QUERY
)
async def get_wait(id: Id, services: TheServices) -> Json:
    return Json(await views_waits.get_wait(services, id))


@routes.post(
    "/waits/{id}/resolve",
    operation_id="resolveWait",
    response_model=answers.Wait,
    dependencies=NO_QUERY,
)
async def resolve_wait(
    id: Id, body: AnyResolution, services: TheServices, caller: TheCaller
) -> Json:
    asked = await views_waits.get_wait(services, id)
    said, on_behalf_of = resolution(asked["kind"], body)
    return Json(await waits.resolve(services, id, said, caller, on_behalf_of))


@routes.get("/calls", operation_id="listUnknownCalls", response_model=answers.Page[answers.Call])
async def list_unknown_calls(services: TheServices, query: Annotated[CallsQuery, Query()]) -> Json:
    listing = query.listing("unknown calls")
    return Json(await views_parts.list_unknown_calls(services, listing))


@routes.post(
    "/calls/{id}/settle",
    operation_id="settleCall",
    response_model=answers.Call,
    dependencies=NO_QUERY,
)
async def settle_call(
    id: Id, body: AnySettlement, services: TheServices, caller: TheCaller
) -> Json:
    return Json(await calls.settle(services, id, settlement(body), caller))
