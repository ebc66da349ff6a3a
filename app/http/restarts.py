"""Going on with a run that was stopped, and branching off from one."""

from fastapi import Depends
from starlette.requests import Request

from app.domain.canonical import digest
from app.http.answers import Json
from app.http.parts import Id, TheCaller, TheKey, TheServices, TheTrace
from app.http.routing import router
from app.http.schemas import answers
from app.http.schemas.queries import no_query
from app.http.schemas.requests import ForkBody, ResumeBody
from app.services import restarts, views_runs

routes = router("/v1/runs/{id}", "runs")
NO_QUERY = [Depends(no_query)]


@routes.post(
    "/resume",
    operation_id="resumeRun",
    status_code=202,
    response_model=answers.Run,
    dependencies=NO_QUERY,
)
async def resume_run(
    id: Id, services: TheServices, caller: TheCaller, body: ResumeBody | None = None
) -> Json:
    await restarts.resume(services, id, dict(body.limits) if body else {}, caller)
    return Json(await views_runs.get_run(services, id), status_code=202)


@routes.post(
    "/fork",
    operation_id="forkRun",
    status_code=202,
    response_model=answers.Run,
    responses={200: {"model": answers.Run, "description": "Forked before, with the same key"}},
    dependencies=NO_QUERY,
)
async def fork_run(
    request: Request,
    id: Id,
    body: ForkBody,
    services: TheServices,
    caller: TheCaller,
    key: TheKey,
    trace_id: TheTrace,
) -> Json:
    # Of another run the same body means another thing.
    fingerprint = digest(["fork", id, await request.json()])
    branch = restarts.Branch(id, body.turn, body.input, trace_id)
    forked = await restarts.fork(services, branch, caller, key, fingerprint)
    headers = {"Location": f"/v1/runs/{forked.run}"}
    if forked.replayed:
        headers["Idempotent-Replayed"] = "true"
    status = 200 if forked.replayed else 202
    return Json(await views_runs.get_run(services, forked.run), status_code=status, headers=headers)
