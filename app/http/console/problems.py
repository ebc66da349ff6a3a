"""Errors: a page where a person looks with a browser, the problem document everywhere else."""

from starlette.requests import Request
from starlette.responses import Response

from app.errors import DatabaseUnavailable, PerdureError, Unauthorized
from app.http import problems
from app.http.console.places import inside
from app.http.console.rendering import Page
from app.http.middleware import REQUEST_ID

# Paths that speak to programs, also when a browser asks.
FOR_PROGRAMS = ("/v1", "/health", "/metrics", "/openapi.json", "/static/")


async def answer(request: Request, error: Exception) -> Response:
    problem = problems.problem_of(error)
    document = await problems.answer(request, problem)
    if not wants_page(request) or document.status_code < 400:
        return document
    return _page(request, problem, document)


def wants_page(request: Request) -> bool:
    accepted = request.headers.get("accept", "")
    return "text/html" in accepted and not request.url.path.startswith(FOR_PROGRAMS)


def _page(request: Request, problem: PerdureError, document: Response) -> Page:
    kept = ("retry-after", "www-authenticate", "allow")
    headers = {name: document.headers[name] for name in kept if name in document.headers}
    if isinstance(problem, Unauthorized):
        door = {"next": inside(_here(request)), "refused": None}
        return Page("sign_in.html", door, document.status_code, headers)
    context = {
        "problem": problem,
        "retries": isinstance(problem, DatabaseUnavailable),
        "request_id": request.scope.get(REQUEST_ID),
    }
    return Page("problem.html", context, document.status_code, headers)


def _here(request: Request) -> str:
    query = f"?{request.url.query}" if request.url.query else ""
    return f"{request.url.path}{query}"
