"""Lists of the service, page by page."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from app.client.models import Page
from app.client.wire import Flow, Request, fetch

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True)
class Listing(Generic[M]):
    """All items of one list; `query` filters them."""

    model: type[M]
    path: str
    query: Mapping[str, str] = field(default_factory=dict)

    def page(self, after: str | None) -> Flow[Page[M]]:
        query = dict(self.query) if after is None else {**self.query, "after": after}
        return (yield from fetch(Request("GET", self.path, query), self._read))

    def _read(self, told: object) -> Page[M]:
        page = Page[Any].model_validate(told)
        return Page(data=list(map(self.model.model_validate, page.data)), next=page.next)


def query_of(**given: Any) -> dict[str, str]:
    """What was given, as it stands in a URL."""
    return {name: _written(value) for name, value in given.items() if value is not None}


def _written(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case datetime():
            return value.isoformat()
        case _:
            return str(value)
