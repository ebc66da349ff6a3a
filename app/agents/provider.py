"""A pretend payment provider, to watch what a crash does to real money.

GET  /orders/{id}                              an order with what was refunded so far;
                                               2001 is as 1001, and so with each thousand
POST /refunds    {order_id, cents}             Idempotency-Key: one key is one refund
POST /transfers  {order_id, cents}             takes no key: each call moves money
GET  /ledger                                   every row, and how often it was asked for
POST /hold       {where: before|after, path}   the next request there stops at its effect
GET  /held?timeout=30                          waits until a request is held; if none comes,
                                               the hold is lifted. With 0 it only looks
POST /release                                  lets held requests go on
"""

import json
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from app.agents.bank import Holds, Ledger, Refusal

LONGEST_WAIT = 60.0


def create_app(path: str = ":memory:", key: str | None = None) -> Starlette:
    """`path`: a file that the ledger survives in; `key`: the only credential accepted."""
    provider = _Provider(Ledger(path), Holds(), key)
    routes = [
        Route("/orders/{order_id}", provider.order),
        Route("/refunds", provider.refund, methods=["POST"]),
        Route("/transfers", provider.transfer, methods=["POST"]),
        Route("/ledger", provider.rows),
        Route("/hold", provider.hold, methods=["POST"]),
        Route("/held", provider.held),
        Route("/release", provider.release, methods=["POST"]),
    ]
    handlers: Any = {Refusal: _refused, HTTPException: _failed}
    return Starlette(routes=routes, exception_handlers=handlers)


class _Line(JSONResponse):
    """Ends with its line, so that a prompt after `curl` stands on the next one."""

    def render(self, content: Any) -> bytes:  # noqa: ANN401 - as in the base
        return super().render(content) + b"\n"


class _Provider:
    def __init__(self, ledger: Ledger, holds: Holds, key: str | None) -> None:
        self._ledger = ledger
        self._holds = holds
        self._key = key

    async def order(self, request: Request) -> JSONResponse:
        self._authorize(request)
        return _Line(self._ledger.order(request.path_params["order_id"]))

    async def refund(self, request: Request) -> JSONResponse:
        key = request.headers.get("idempotency-key")
        if not key:
            raise Refusal(400, "Send an Idempotency-Key.")
        return await self._move(request, "refund", key)

    async def transfer(self, request: Request) -> JSONResponse:
        return await self._move(request, "transfer", None)

    async def _move(self, request: Request, kind: str, key: str | None) -> JSONResponse:
        self._authorize(request)
        order_id, cents = _payment(await _body(request))
        place = {"path": request.url.path, "order_id": order_id, "cents": cents, "key": key}
        gone = partial(_client_gone, request)
        await self._holds.stop(place | {"where": "before"}, gone)
        row = self._ledger.book(kind, order_id, cents, key)
        await self._holds.stop(place | {"where": "after"}, gone)
        return _Line(row, status_code=201 if row["calls"] == 1 else 200)

    async def rows(self, request: Request) -> JSONResponse:
        return _Line({"rows": self._ledger.rows()})

    async def hold(self, request: Request) -> JSONResponse:
        body = await _body(request)
        if body.get("where") not in ("before", "after"):
            raise Refusal(422, "where must be before or after.")
        self._holds.arm(body["where"], str(body.get("path")))
        return _Line({"armed": body})

    async def held(self, request: Request) -> JSONResponse:
        seconds = min(float(request.query_params.get("timeout", "30")), LONGEST_WAIT)
        if seconds <= 0:
            return _Line({"held": self._holds.look()})
        if not self._holds.is_set:
            return _Line({"held": [], "reason": "No hold is set: POST /hold first."})
        if held := await self._holds.wait(seconds, partial(_client_gone, request)):
            return _Line({"held": held})
        reason = f"Nothing came in {seconds:g} s; was the order refunded already?"
        return _Line({"held": [], "reason": f"{reason} The hold is lifted."})

    async def release(self, request: Request) -> JSONResponse:
        return _Line({"released": self._holds.release()})

    def _authorize(self, request: Request) -> None:
        scheme, _, credential = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not credential:
            raise Refusal(401, "Send a bearer credential.")
        if self._key is not None and credential != self._key:
            raise Refusal(401, "This credential is not known.")


async def _client_gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _body(request: Request) -> dict[str, Any]:
    try:
        body = await request.json()
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise Refusal(400, "The body is no JSON.") from None
    if not isinstance(body, dict):
        raise Refusal(422, "The body must be an object.")
    return body


def _payment(body: dict[str, Any]) -> tuple[str, int]:
    order_id, cents = body.get("order_id"), body.get("cents")
    if not isinstance(order_id, str):
        raise Refusal(422, "order_id must be a string.")
    if not isinstance(cents, int) or isinstance(cents, bool) or cents < 1:
        raise Refusal(422, "cents must be a whole number above 0.")
    return order_id, cents


async def _refused(request: Request, refusal: Refusal) -> JSONResponse:
    return _Line({"error": refusal.reason}, status_code=refusal.status)


async def _failed(request: Request, error: HTTPException) -> JSONResponse:
    return _Line({"error": error.detail}, status_code=error.status_code)
