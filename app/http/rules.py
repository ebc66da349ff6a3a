"""Standing rules: permissions that were given together with an approval."""

from typing import Annotated

from fastapi import Depends, Query

from app.http.answers import Json
from app.http.parts import Id, TheCaller, TheServices
from app.http.routing import router
from app.http.schemas import answers
from app.http.schemas.queries import RulesQuery, no_query
from app.services import rules, views_rules

routes = router("/v1/rules", "rules")


@routes.get("", operation_id="listRules", response_model=answers.Page[answers.Rule])
async def list_rules(services: TheServices, query: Annotated[RulesQuery, Query()]) -> Json:
    return Json(await views_rules.list_rules(services, query.listing("rules")))


@routes.delete(
    "/{id}",
    operation_id="revokeRule",
    response_model=answers.Rule,
    dependencies=[Depends(no_query)],
)
async def revoke_rule(id: Id, services: TheServices, caller: TheCaller) -> Json:
    return Json(await rules.revoke(services, id, caller))
