"""Query parameters. An unknown one is refused: without that filter it is another question."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from starlette.requests import Request

from app.domain.states import Status, WaitKind, WaitState
from app.domain.webhooks import State as DeliveryState
from app.http.problems import refuse
from app.http.schemas.requests import to_instant
from app.services.views_pages import Listing

MOST_ITEMS = 200


def _storable(value: str) -> str:
    if "\x00" in value:
        raise ValueError("must not hold NUL")
    return value


def _to_instant(value: object) -> object:
    # An unescaped plus sign arrives as a space.
    return to_instant(value.replace(" ", "+") if isinstance(value, str) else value)


def _to_flag(value: object) -> object:
    if isinstance(value, str) and value not in ("true", "false"):
        raise ValueError("must be true or false")
    return value


def _to_switch(value: object) -> object:
    if isinstance(value, str) and value not in ("0", "1", "true", "false"):
        raise ValueError("must be 1 or 0")
    return value


Text = Annotated[str, Field(max_length=200), AfterValidator(_storable)]
Instant = Annotated[datetime, BeforeValidator(_to_instant)]
Flag = Annotated[bool, BeforeValidator(_to_flag)]
Switch = Annotated[bool, BeforeValidator(_to_switch)]
Limit = Annotated[int, Field(ge=1, le=MOST_ITEMS)]


class ListQuery(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    limit: Limit = 50
    after: Annotated[str, Field(max_length=1000)] | None = None

    def listing(self, name: str, **bound: Any) -> Listing:
        """`bound`: what the path has already decided."""
        filters = self.model_dump(exclude={"limit", "after"}, exclude_none=True)
        return Listing(name, self.limit, self.after, filters | bound)


class PartsQuery(ListQuery):
    """The parts of one run come in larger pages: most runs fit into one."""

    limit: Limit = MOST_ITEMS


class EventsQuery(BaseModel):
    """`limit` is for pages, `deltas` for streams; where it has no meaning it is ignored."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    limit: Limit = MOST_ITEMS
    after: Annotated[int, Field(ge=0, lt=2**63, description="The last event seen.")] = 0
    deltas: Annotated[
        Switch,
        Field(description="1: a stream also has `model.delta`, the text as the model says it."),
    ] = False


class RunsQuery(ListQuery):
    status: Status | None = None
    agent: Text | None = None
    session: Text | None = None
    target: Text | None = None
    queue_key: Text | None = None
    created_after: Instant | None = None
    created_before: Instant | None = None


class WaitsQuery(ListQuery):
    run: Text | None = None
    kind: WaitKind | None = None
    state: WaitState | None = None


class CallsQuery(ListQuery):
    """`state` must be given: other calls are listed by their run."""

    state: Literal["outcome_unknown"]
    run: Text | None = None
    session: Text | None = None
    tool: Text | None = None


class RulesQuery(ListQuery):
    agent: Text | None = None
    session: Text | None = None
    tool: Text | None = None


class CancelQuery(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    compensate: Flag = False


class DeliveriesQuery(ListQuery):
    run: Text | None = None
    state: DeliveryState | None = None


async def no_query(request: Request) -> None:
    for name in request.query_params:
        raise refuse(name, "is not known here")
