"""What was sent to the callbacks of runs, and sending it again."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query

from app.domain.webhooks import TYPES
from app.http.answers import Json
from app.http.parts import Id, TheServices
from app.http.routing import router
from app.http.schemas import answers
from app.http.schemas.queries import DeliveriesQuery, no_query
from app.services import webhooks

routes = router("/v1/webhooks", "webhooks")
# What receivers get, for readers of /openapi.json.
sent = APIRouter()


@routes.get(
    "/deliveries", operation_id="listDeliveries", response_model=answers.Page[answers.Delivery]
)
async def list_deliveries(
    services: TheServices, query: Annotated[DeliveriesQuery, Query()]
) -> Json:
    return Json(await webhooks.list_deliveries(services, query.listing("deliveries")))


@routes.post(
    "/deliveries/{id}/redeliver",
    operation_id="redeliver",
    status_code=202,
    response_model=answers.Delivery,
    dependencies=[Depends(no_query)],
)
async def redeliver(id: Id, services: TheServices) -> Json:
    return Json(await webhooks.redeliver(services, id), status_code=202)


async def _receive(body: answers.Webhook) -> None:
    pass


for _type in TYPES:
    sent.add_api_route(
        _type,
        _receive,
        methods=["POST"],
        operation_id=_type.replace(".", "_"),
        summary=f"A run's callback is told of {_type}",
        status_code=204,
        response_description="Any 2xx says that it has arrived",
        responses={"default": {"description": "It is sent again, for three days; 410 ends that"}},
    )
