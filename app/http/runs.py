"""Submitting runs, looking at them, speaking to them."""

from typing import Annotated

from fastapi import Depends, Query
from starlette.requests import Request

from app.domain.canonical import digest
from app.http.answers import Json
from app.http.holding import has_ended, settled_run, submitted_run
from app.http.parts import Id, TheCaller, TheHub, TheKey, ThePreference, TheServices, TheTrace
from app.http.preferences import Preference
from app.http.problems import refuse
from app.http.routing import router
from app.http.schemas import answers
from app.http.schemas.queries import CancelQuery, RunsQuery, no_query
from app.http.schemas.requests import CancelBody, MessageBody, RunBody
from app.services import cancels, messages, runs, views_runs

routes = router("/v1/runs", "runs")
NO_QUERY = [Depends(no_query)]


@routes.post(
    "",
    operation_id="submitRun",
    status_code=202,
    response_model=answers.Run,
    responses={200: {"model": answers.Run, "description": "Ended, or submitted before"}},
    dependencies=NO_QUERY,
)
async def submit_run(
    request: Request,
    body: RunBody,
    services: TheServices,
    hub: TheHub,
    caller: TheCaller,
    key: TheKey,
    trace_id: TheTrace,
    preference: ThePreference,
) -> Json:
    if body.deadline and await views_runs.has_passed(services, body.deadline, caller, key):
        raise refuse("deadline", "must be in the future")
    fingerprint = digest(await request.json())
    submission = _submission(body, trace_id)
    submitted = await runs.submit(services, submission, caller, key, fingerprint)
    run = await submitted_run(request, services, hub, submitted.run, preference)
    known = submitted.replayed or submitted.existing
    waited = preference.wait > 0 and has_ended(run)
    headers = _applied(preference) | {"Location": f"/v1/runs/{submitted.run}"}
    if submitted.replayed:
        headers["Idempotent-Replayed"] = "true"
    return Json(run, status_code=200 if known or waited else 202, headers=headers)


@routes.get("", operation_id="listRuns", response_model=answers.Page[answers.Run])
async def list_runs(services: TheServices, query: Annotated[RunsQuery, Query()]) -> Json:
    return Json(await views_runs.list_runs(services, query.listing("runs")))


@routes.get(
    "/{id}",
    operation_id="getRun",
    response_model=answers.Run,
    responses={202: {"model": answers.Run, "description": "Not ended, though held for a while"}},
    dependencies=NO_QUERY,
)
async def get_run(
    request: Request, id: Id, services: TheServices, hub: TheHub, preference: ThePreference
) -> Json:
    run = await settled_run(request, services, hub, id, preference)
    still = preference.wait > 0 and not has_ended(run)
    return Json(run, status_code=202 if still else 200, headers=_waited(preference))


@routes.post(
    "/{id}/cancel",
    operation_id="cancelRun",
    status_code=202,
    response_model=answers.Run,
)
async def cancel_run(
    id: Id,
    services: TheServices,
    caller: TheCaller,
    query: Annotated[CancelQuery, Query()],
    body: CancelBody | None = None,
) -> Json:
    reason = body.reason if body else None
    await cancels.cancel(services, id, caller, reason, compensate=query.compensate)
    return Json(await views_runs.get_run(services, id), status_code=202)


@routes.post(
    "/{id}/messages",
    operation_id="sendMessage",
    status_code=202,
    response_model=answers.Message,
    dependencies=NO_QUERY,
)
async def send_message(id: Id, body: MessageBody, services: TheServices, caller: TheCaller) -> Json:
    return Json(await messages.send(services, id, body.text, caller), status_code=202)


@routes.delete(
    "/{id}/messages/{message_id}",
    operation_id="withdrawMessage",
    response_model=answers.Message,
    dependencies=NO_QUERY,
)
async def withdraw_message(id: Id, message_id: Id, services: TheServices) -> Json:
    return Json(await messages.withdraw(services, id, message_id))


def _submission(body: RunBody, trace_id: str) -> runs.Submission:
    return runs.Submission(
        agent=body.agent,
        input=body.input,
        session=body.session,
        target=body.target,
        on_busy=body.on_busy,
        limits=dict(body.limits),
        priority=body.priority,
        queue_key=body.queue_key,
        deadline=body.deadline,
        metadata=body.metadata,
        callback=body.callback.url if body.callback else None,
        trace_id=trace_id,
    )


def _applied(preference: Preference) -> dict[str, str]:
    return {} if preference.applied is None else {"Preference-Applied": preference.applied}


def _waited(preference: Preference) -> dict[str, str]:
    """A read is answered at once anyway, so there is nothing to do about `respond-async`."""
    return _applied(preference) if preference.wait else {}
