"""Signing in and out, and the files that pages need."""

from typing import Annotated
from urllib.parse import parse_qs

from fastapi import APIRouter, Query
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from app.errors import Forbidden, NotFound, TooLarge, UnsupportedMediaType
from app.http import cookies
from app.http.console.places import inside
from app.http.console.rendering import HEADERS, STATIC, Page, address

routes = APIRouter(include_in_schema=False)

FORM = "application/x-www-form-urlencoded"
# Whoever asks has not shown a key yet.
LARGEST_FORM = 8192
FOR_GOOD = "public, max-age=31536000, immutable"


@routes.get("/sign-in")
async def show_door(request: Request, next: str = "/") -> Response:
    if _key(request) is None:
        return RedirectResponse("/", 303, HEADERS)
    return Page("sign_in.html", {"next": inside(next), "refused": None})


@routes.post("/sign-in")
async def sign_in(request: Request) -> Response:
    """A form, so that it works before any script does; it changes nothing but the cookie."""
    _check_form(request.headers)
    form = await _form(request)
    key, wanted = _key(request), inside(form.get("next", "/"))
    if key is None:
        return RedirectResponse("/", 303, HEADERS)
    if not cookies.is_same(form.get("key", "").strip(), key):
        refused = "This is not the key that the service was started with."
        return Page("sign_in.html", {"next": wanted, "refused": refused}, 401)
    answer = RedirectResponse(wanted, 303, HEADERS)
    answer.set_cookie(
        cookies.name_for(key),
        cookies.issue(key),
        max_age=cookies.LIFETIME_SECONDS,
        secure=_is_secure(request),
        httponly=True,
        samesite="strict",
    )
    return answer


@routes.post("/sign-out")
async def sign_out(request: Request) -> Response:
    _check_form(request.headers)
    answer = RedirectResponse("/sign-in", 303, HEADERS)
    key = _key(request)
    if key is not None:
        answer.delete_cookie(cookies.name_for(key), httponly=True, samesite="strict")
    return answer


@routes.get("/static/{name}")
async def get_file(name: str, v: Annotated[str, Query()] = "") -> Response:
    if name not in STATIC:
        raise NotFound("There is no such file.")
    content, kind = STATIC[name]
    kept = FOR_GOOD if address(name).endswith(f"?v={v}") else "no-cache"
    return Response(content, media_type=kind, headers={**HEADERS, "Cache-Control": kept})


def _key(request: Request) -> str | None:
    key: str | None = request.app.state.key
    return key


def _check_form(headers: Headers) -> None:
    sites, origins = headers.getlist("sec-fetch-site"), headers.getlist("origin")
    own = {f"{scheme}://{headers.get('host')}" for scheme in ("http", "https")}
    if any(site != "same-origin" for site in sites) or not set(origins) <= own:
        raise Forbidden("A page of another origin may not sign in or out.")


async def _form(request: Request) -> dict[str, str]:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != FORM:
        raise UnsupportedMediaType(f"Send the form as `{FORM}`.")
    body = await request.body()
    if len(body) > LARGEST_FORM:
        raise TooLarge(f"This form has at most {LARGEST_FORM} bytes.")
    fields = parse_qs(body.decode("ascii", "replace"), keep_blank_values=True)
    return {name: values[0] for name, values in fields.items()}


def _is_secure(request: Request) -> bool:
    """Behind a proxy only the browser and the proxy know that it is TLS."""
    origin = request.headers.get("origin", "")
    told = request.headers.get("x-forwarded-proto", "")
    return "https" in (request.url.scheme, origin.partition(":")[0], told)
