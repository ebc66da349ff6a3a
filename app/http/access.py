"""Who is asking, and whether it may be a web page that borrows a browser of this machine."""

import hmac
import ipaddress
from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from app.errors import Forbidden, Unauthorized

OPEN_PATHS = frozenset({"/health/live", "/health/ready"})
READING = frozenset({"GET", "HEAD", "OPTIONS"})
# The actor behind PERDURE_API_KEY, and the one where no key is configured.
KEY_HOLDER = "default"
LOCAL = "local"


class Access:
    """Leaves the actor's name in the request's state."""

    def __init__(self, app: ASGIApp, key: str | None) -> None:
        self._app = app
        self._key = key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in OPEN_PATHS:
            headers = Headers(scope=scope)
            if self._key is None:
                _check_local(headers, scope["method"])
            else:
                _check_key(headers, self._key)
            actor = LOCAL if self._key is None else KEY_HOLDER
            scope.setdefault("state", {})["actor"] = actor
        await self._app(scope, receive, send)


def _check_key(headers: Headers, key: str) -> None:
    if not any(hmac.compare_digest(given.encode(), key.encode()) for given in _keys(headers)):
        raise Unauthorized("Send the API key as `Authorization: Bearer <key>` or as `x-api-key`.")


def _keys(headers: Headers) -> Iterable[str]:
    yield from headers.getlist("x-api-key")
    for credentials in headers.getlist("authorization"):
        scheme, _, key = credentials.partition(" ")
        if scheme.lower() == "bearer":
            yield key.strip()


def _check_local(headers: Headers, method: str) -> None:
    """Only this machine may ask: no name that resolves to it, no page from elsewhere."""
    hosts = headers.getlist("host")
    if len(hosts) != 1 or not _is_loopback(hosts[0]):
        raise Forbidden(
            "Without an API key the service answers only as localhost or 127.0.0.1: use such an "
            "address, or set PERDURE_API_KEY."
        )
    if method not in READING and not all(
        _is_own(origin, hosts[0]) for origin in headers.getlist("origin")
    ):
        raise Forbidden("A page of another origin may not write; set PERDURE_API_KEY and send it.")


def _is_loopback(host: str) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _is_own(origin: str, host: str) -> bool:
    return origin.lower() in (f"http://{host}".lower(), f"https://{host}".lower())
