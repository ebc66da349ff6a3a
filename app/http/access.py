"""Who is asking, and whether it may be a web page that borrows a browser of this machine."""

import ipaddress
from collections.abc import Iterable
from email.message import Message as Header
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.types import ASGIApp, Receive, Scope, Send

from app.errors import Forbidden, Unauthorized, UnsupportedMediaType
from app.http import cookies

OPEN_PATHS = frozenset({"/health/live", "/health/ready"})
# What a browser needs to sign in; they check their forms themselves.
DOORS = frozenset({"/sign-in", "/sign-out"})
FILES = "/static/"
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
            elif scope["path"] not in DOORS and not scope["path"].startswith(FILES):
                _check_key(headers, self._key, scope)
            actor = LOCAL if self._key is None else KEY_HOLDER
            scope.setdefault("state", {})["actor"] = actor
        await self._app(scope, receive, send)


def check_page(headers: Headers, method: str) -> None:
    """Refuses what a browser sends for a page of another site, host or port."""
    hosts = headers.getlist("host")
    foreign = [site for site in headers.getlist("sec-fetch-site") if site != "same-origin"]
    if method in READING:
        # A person may follow a link to us or type our address; a page may not look inside.
        if set(foreign) - {"none"} and not _is_visit(headers):
            raise Forbidden("A page of another origin may not read this service.")
    elif foreign or not all(_is_own(origin, *hosts[:1]) for origin in headers.getlist("origin")):
        raise Forbidden("A page of another origin may not write; set PERDURE_API_KEY and send it.")


def _is_visit(headers: Headers) -> bool:
    sent = headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")
    return sent == ("navigate", "document")


def _check_key(headers: Headers, key: str, scope: Scope) -> None:
    if any(cookies.is_same(given, key) for given in _keys(headers)):
        return
    if not any(cookies.is_valid(key, cookie) for cookie in _cookies(headers, key)):
        raise Unauthorized("Send the API key as `Authorization: Bearer <key>` or as `x-api-key`.")
    check_page(headers, scope["method"])
    if scope["method"] not in READING:
        _check_sender(headers, scope["path"])


def _check_sender(headers: Headers, path: str) -> None:
    """A browser sends the cookie by itself, so the page must show that it is one of ours."""
    if not headers.getlist("origin") and not headers.getlist("sec-fetch-site"):
        raise Forbidden("With a cookie, a request must say which page it comes from: send Origin.")
    if path.startswith("/v1/") and _media_type(headers) != "application/json":
        raise UnsupportedMediaType("Send JSON in UTF-8, with `Content-Type: application/json`.")


def _media_type(headers: Headers) -> str:
    header = Header()
    header["content-type"] = headers.get("content-type", "none/none")
    return header.get_content_type()


def _keys(headers: Headers) -> Iterable[str]:
    yield from headers.getlist("x-api-key")
    for credentials in headers.getlist("authorization"):
        scheme, _, key = credentials.partition(" ")
        if scheme.lower() == "bearer":
            yield key.strip()


def _cookies(headers: Headers, key: str) -> Iterable[str]:
    for sent in headers.getlist("cookie"):
        found = cookie_parser(sent).get(cookies.name_for(key))
        if found is not None:
            yield found


def _check_local(headers: Headers, method: str) -> None:
    """Only this machine may ask: no name that resolves to it, no page from elsewhere."""
    hosts = headers.getlist("host")
    if len(hosts) != 1 or not _is_loopback(hosts[0]):
        raise Forbidden(
            "Without an API key the service answers only as localhost or 127.0.0.1: use such an "
            "address, or set PERDURE_API_KEY."
        )
    check_page(headers, method)


def _is_loopback(host: str) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _is_own(origin: str, host: str = "") -> bool:
    return origin.lower() in (f"http://{host}".lower(), f"https://{host}".lower())
