"""A shop outside: it books each order, once per key, and can be asked."""

import json

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route


def create_app() -> Starlette:
    rows: list[dict[str, str | None]] = []

    async def order(request: Request) -> JSONResponse:
        ref = json.loads(await request.body())["ref"]
        row = {"ref": ref, "key": request.headers.get("idempotency-key")}
        if row["key"] is None or row not in rows:
            rows.append(row)
        return JSONResponse({"ordered": ref})

    async def find(request: Request) -> JSONResponse:
        asked = request.query_params
        found = [row for row in rows if row["ref"] == asked["ref"]]
        return JSONResponse({"found": len(found)})

    async def ledger(request: Request) -> JSONResponse:
        return JSONResponse({"rows": rows})

    return Starlette(
        routes=[
            Route("/orders", order, methods=["POST"]),
            Route("/orders", find),
            Route("/ledger", ledger),
        ]
    )
