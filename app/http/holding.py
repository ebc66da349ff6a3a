"""`Prefer: wait`: an answer that is held until it is worth giving."""

import asyncio
from typing import Any

from starlette.requests import Request

from app.delivery.hub import Hub
from app.domain.states import ENDED
from app.http.leaving import client_gone
from app.http.preferences import Preference
from app.services.context import Services
from app.services.views_runs import get_run
from app.store.db_errors import is_unavailable

Run = dict[str, Any]


def has_ended(run: Run) -> bool:
    return run["status"] in ENDED


async def settled_run(
    request: Request, services: Services, hub: Hub, run_id: str, preference: Preference
) -> Run:
    """The run as soon as it has ended or asks for something; as it is when the time is over."""
    run = await get_run(services, run_id)
    if not preference.wait or has_ended(run):
        return run
    await _wait(request, hub, run_id, preference.wait)
    return await get_run(services, run_id)


async def submitted_run(
    request: Request, services: Services, hub: Hub, run_id: str, preference: Preference
) -> Run:
    """The same of a run that is committed: a database that has gone away while the answer was held
    takes nothing back, so it is then told as it was before."""
    run = await get_run(services, run_id)
    if not preference.wait or has_ended(run):
        return run
    await _wait(request, hub, run_id, preference.wait)
    try:
        return await get_run(services, run_id)
    except Exception as error:
        if is_unavailable(error):
            return run
        raise


async def _wait(request: Request, hub: Hub, run_id: str, seconds: int) -> None:
    tasks = [
        asyncio.create_task(hub.wait(run_id, seconds)),
        asyncio.create_task(client_gone(request.receive)),
    ]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
