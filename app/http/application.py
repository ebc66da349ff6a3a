"""The ASGI application, put together."""

from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.middleware import Middleware
from pydantic.json_schema import models_json_schema
from starlette.exceptions import HTTPException

from app.errors import PerdureError
from app.http import fleet, health, restarts, rules, run_parts, runs, waits, webhooks
from app.http.access import Access
from app.http.console import pages, sign_in
from app.http.console.problems import answer
from app.http.health import Readiness
from app.http.middleware import BodyLimit, Envelope, Head
from app.http.parts import Parts
from app.http.schemas.answers import Problem
from app.http.schemas.resolutions import REFERENCE
from app.http.schemas.rules import RuleBody
from app.services.views_console import Overview


class Service(FastAPI):
    """FastAPI with what its routes do not declare among the schemas of its /openapi.json."""

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            document = super().openapi()
            _, definitions = models_json_schema(
                [(Problem, "serialization"), (RuleBody, "validation")], ref_template=REFERENCE
            )
            document["components"]["schemas"] |= definitions["$defs"]
        return super().openapi()


def build(parts: Parts, *, key: str | None) -> Service:
    """`key`: what all requests must carry; None for a service of this machine only."""
    app = Service(
        title="Perdure",
        version="1",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        webhooks=webhooks.sent,
        middleware=[
            Middleware(Envelope, answer=answer),
            Middleware(Head),
            Middleware(Access, key=key),
            Middleware(BodyLimit),
        ],
        exception_handlers={
            PerdureError: answer,
            HTTPException: answer,
            RequestValidationError: answer,
        },
    )
    app.state.parts = parts
    app.state.key = key
    app.state.readiness = Readiness(parts)
    app.state.overview = Overview(parts.services)
    for part in (runs, run_parts, restarts, waits, rules, webhooks, fleet, health, pages, sign_in):
        app.router.routes += part.routes.routes
    return app
