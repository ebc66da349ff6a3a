"""What the synchronous and the asynchronous client know of the service they speak to."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit

import httpx

from app.client.errors import Unusable
from app.client.wire import Answer, Lost, Request

URL = "PERDURE_URL"
KEY = "PERDURE_API_KEY"
DEFAULT_URL = "http://127.0.0.1:8000"
CONNECT_SECONDS = 5.0
# The request has surely not arrived.
UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError)
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True)
class Place:
    """Where the service is and how it is asked."""

    url: str
    key: str | None

    def options(self) -> dict[str, Any]:
        """For an httpx client."""
        parts = urlsplit(self.url)
        headers = {"user-agent": "perdure-client", "accept": "application/json"}
        if self.key is not None:
            headers["authorization"] = f"Bearer {self.key}"
        return {
            "base_url": self.url,
            "headers": headers,
            # A proxy of the environment does not lead to this machine.
            "trust_env": parts.hostname not in LOOPBACK,
            # What is not encrypted needs no certificates, which take long to load.
            "verify": parts.scheme == "https",
        }


def locate(url: str | None, key: str | None) -> Place:
    """Arguments go before the environment, and that before this machine."""
    url = url or os.environ.get(URL) or DEFAULT_URL
    if not _is_address(url):
        raise Unusable(f"{URL} must be an address such as {DEFAULT_URL}, not {url!r}")
    key = key or os.environ.get(KEY) or None
    if key is not None and not (key.isascii() and key.isprintable() and " " not in key):
        raise Unusable(f"{KEY} must be printable ASCII without spaces")
    return Place(url.rstrip("/"), key)


def _is_address(url: str) -> bool:
    try:
        httpx.URL(url)
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except (ValueError, httpx.InvalidURL):
        return False


def built(http: httpx.Client | httpx.AsyncClient, request: Request) -> httpx.Request:
    try:
        return http.build_request(**_asked(request))
    except (ValueError, TypeError, RecursionError, httpx.InvalidURL) as error:
        raise Unusable(f"No request can be made of what was given: {error}") from error


def _asked(request: Request) -> dict[str, Any]:
    """The arguments of `httpx.Client.build_request`."""
    found: dict[str, Any] = {
        "method": request.method,
        "url": request.path,
        "headers": dict(request.headers),
        "timeout": httpx.Timeout(request.seconds, connect=CONNECT_SECONDS),
    }
    if request.query:
        found["params"] = dict(request.query)
    if request.body is not None:
        found["content"] = json.dumps(request.body, default=_written).encode()
        found["headers"]["content-type"] = "application/json"
    return found


def answered(response: httpx.Response, body: bytes = b"") -> Answer:
    return Answer(response.status_code, _lowered(response.headers), body)


def lost(error: httpx.RequestError) -> Lost:
    return Lost(error, unsent=isinstance(error, UNSENT))


def _lowered(headers: httpx.Headers) -> Mapping[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _written(value: object) -> str:
    if isinstance(value, Decimal):
        return str(value)
    if hasattr(value, "isoformat"):
        return str(value.isoformat())
    raise TypeError(f"{value!r} is not JSON")
