"""What handlers are given: the parts of the process, and what the request says of itself."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Header, Path
from starlette.requests import Request

from app.delivery.hub import Hub
from app.http.preferences import (
    Preference,
    idempotency_key_of,
    last_event_of,
    preference_of,
    trace_id_of,
    wants_stream,
)
from app.services.context import Caller, Services


@dataclass(frozen=True)
class Parts:
    """`is_registered`: whether the agents of this deployment stand in the database."""

    services: Services
    hub: Hub
    is_registered: Callable[[], bool]


def parts_of(request: Request) -> Parts:
    parts: Parts = request.app.state.parts
    return parts


async def _services(request: Request) -> Services:
    return parts_of(request).services


async def _hub(request: Request) -> Hub:
    return parts_of(request).hub


async def _caller(request: Request) -> Caller:
    return Caller(request.state.actor)


async def _preference(
    request: Request,
    prefer: Annotated[
        str | None,
        Header(description="`wait=N`, N up to 60: hold the answer until there is something to do."),
    ] = None,
) -> Preference:
    return preference_of(request)


async def _idempotency_key(
    request: Request,
    idempotency_key: Annotated[
        str | None, Header(description="Names this submission; sent again, it starts nothing new.")
    ] = None,
) -> str | None:
    return idempotency_key_of(request)


async def _last_event(
    request: Request,
    last_event_id: Annotated[
        str | None,
        Header(description="For a stream: the last event seen. It holds over `after`."),
    ] = None,
) -> int | None:
    return last_event_of(request) if wants_stream(request) else None


async def _trace_id(
    request: Request, traceparent: Annotated[str | None, Header(description="W3C.")] = None
) -> str:
    return trace_id_of(request)


# The type that handlers declare, by its name.
TheServices = Annotated[Services, Depends(_services)]
TheHub = Annotated[Hub, Depends(_hub)]
TheCaller = Annotated[Caller, Depends(_caller)]
ThePreference = Annotated[Preference, Depends(_preference)]
TheKey = Annotated[str | None, Depends(_idempotency_key)]
TheLastEvent = Annotated[int | None, Depends(_last_event)]
TheTrace = Annotated[str, Depends(_trace_id)]
Id = Annotated[str, Path(pattern=r"^[A-Za-z0-9_-]{1,128}$")]
