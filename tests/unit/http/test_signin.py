"""The cookie that stands for the key: what it holds, when it ends, and what goes with it."""

import re
from typing import Any

import httpx
import pytest

from app.http import cookies
from app.http.console.places import inside
from tests.unit.http.conftest import MakeClient
from tests.unit.http.test_bad_input import assert_problem

KEY = "s3cret-key"
BEHIND = "/v1/runs/a%20b"  # 404 for whoever may ask, without a look at the database
HOST = "http://127.0.0.1:8000"
BROWSER = {"Accept": "text/html"}
OWN = {"Origin": HOST, "Content-Type": "application/json"}


def cookie(key: str = KEY) -> dict[str, str]:
    return {"Cookie": f"{cookies.name_for(key)}={cookies.issue(key)}"}


async def sign_in(
    http: httpx.AsyncClient, key: str = KEY, next: str = "/", **headers: str
) -> httpx.Response:
    return await http.post("/sign-in", data={"key": key, "next": next}, headers=headers)


def test_a_cookie_holds_until_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    issued = cookies.issue(KEY)
    now = cookies._now()
    assert cookies.is_valid(KEY, issued)
    monkeypatch.setattr(cookies, "_now", lambda: now + cookies.LIFETIME_SECONDS - 2)
    assert cookies.is_valid(KEY, issued)
    monkeypatch.setattr(cookies, "_now", lambda: now + cookies.LIFETIME_SECONDS + 2)
    assert not cookies.is_valid(KEY, issued)


def test_a_cookie_tells_nothing_of_the_key_and_ends_with_it() -> None:
    issued = cookies.issue(KEY)
    assert KEY not in issued
    assert not cookies.is_valid("another", issued)
    assert cookies.name_for("another") != cookies.name_for(KEY)


@pytest.mark.parametrize("change", ["", ".", "..", "x", "9999999999.ab.", "\u00e4.\u00e4.\u00e4"])
def test_what_was_not_issued_is_no_cookie(change: str) -> None:
    assert not cookies.is_valid(KEY, change)
    expiry, nonce, mark = cookies.issue(KEY).split(".")
    assert not cookies.is_valid(KEY, f"{int(expiry) + 1}.{nonce}.{mark}")
    assert not cookies.is_valid(KEY, f"{expiry}.{nonce}x.{mark}")
    assert not cookies.is_valid(KEY, f"{expiry}.{nonce}.{mark[:-1]}")


async def test_the_right_key_gives_a_cookie_and_leads_on(make_client: MakeClient) -> None:
    async with make_client(KEY) as http:
        answer = await sign_in(http, next="/runs/run_1?from=2", Origin=HOST)
        assert answer.status_code == 303
        assert answer.headers["location"] == "/runs/run_1?from=2"
        set_cookie = answer.headers["set-cookie"]
        assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(set_cookie.split("; "))
        assert "Secure" not in set_cookie
        assert_problem(await http.get(BEHIND), 404, "not-found")
        out = await http.post("/sign-out", headers={"Origin": HOST})
        assert out.headers["location"] == "/sign-in"
        assert_problem(await http.get(BEHIND), 401, "unauthorized")


@pytest.mark.parametrize(
    "headers", [{"Origin": "https://127.0.0.1:8000"}, {"X-Forwarded-Proto": "https"}]
)
async def test_over_tls_the_cookie_is_for_tls_only(
    make_client: MakeClient, headers: dict[str, str]
) -> None:
    async with make_client(KEY) as http:
        answer = await sign_in(http, **headers)
        assert "Secure" in answer.headers["set-cookie"].split("; ")


@pytest.mark.parametrize("key", ["", "wrong", KEY.upper(), KEY + "x", "\u00e4"])
async def test_a_wrong_key_gives_none(make_client: MakeClient, key: str) -> None:
    async with make_client(KEY) as http:
        answer = await sign_in(http, key, Origin=HOST)
        assert answer.status_code == 401
        assert "set-cookie" not in answer.headers
        assert "not the key" in answer.text


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "http://127.0.0.1:9"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site", "Origin": HOST},
    ],
)
async def test_another_page_cannot_sign_in_or_out(
    make_client: MakeClient, headers: dict[str, str]
) -> None:
    async with make_client(KEY) as http:
        assert_problem(await sign_in(http, **headers), 403, "forbidden")
        assert_problem(await http.post("/sign-out", headers=headers), 403, "forbidden")


@pytest.mark.parametrize("kind", ["application/json", "text/plain", "multipart/form-data"])
async def test_a_form_is_a_form(make_client: MakeClient, kind: str) -> None:
    async with make_client(KEY) as http:
        body = f"key={KEY}"
        answer = await http.post("/sign-in", content=body, headers={"Content-Type": kind})
        assert_problem(answer, 415, "unsupported-media-type")


async def test_a_large_form_is_refused_before_it_is_read(make_client: MakeClient) -> None:
    async with make_client(KEY) as http:
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        answer = await http.post("/sign-in", content="a=&" * 4096, headers=form)
        assert_problem(answer, 413, "too-large")


@pytest.mark.parametrize(
    "wanted",
    [
        "//evil.example",
        "//[",
        "http://[",
        "///evil.example",
        "/\\evil.example",
        "\\\\evil.example",
        "https://evil.example",
        "http:evil.example",
        "javascript:alert(1)",
        "data:text/html,x",
        "evil.example",
        "/\t/evil.example",
        "/\n/evil.example",
        " //evil.example",
        "/\u00e4",
        "",
    ],
)
def test_signing_in_leads_nowhere_else(wanted: str) -> None:
    assert inside(wanted) == "/"


def test_signing_in_leads_to_the_page_that_was_asked_for() -> None:
    for wanted in ("/", "/inbox", "/runs/run_1?from=2", "/?agent=a%2Fb"):
        assert inside(wanted) == wanted


async def test_without_the_key_a_browser_gets_a_door(make_client: MakeClient) -> None:
    async with make_client(KEY) as http:
        for path in ("/", "/inbox", "/runs/x?from=2&b=%22%3E%3Cscript%3E"):
            answer = await http.get(path, headers=BROWSER)
            assert answer.status_code == 401
            assert 'name="key"' in answer.text
            assert "<script>" not in re.sub(r"<script type=\"module\"", "", answer.text)
        assert_problem(await http.get("/v1/runs", headers=BROWSER), 401, "unauthorized")


@pytest.mark.parametrize("path", ["//evil.example/x", "/%5Cevil.example", "/x/..//evil.example"])
async def test_a_door_leads_nowhere_else(make_client: MakeClient, path: str) -> None:
    """A script follows it once the cookie is there."""
    async with make_client(KEY) as http:
        answer = await http.get(HOST + path, headers=BROWSER)
        assert answer.status_code == 401
        door = re.search(r'data-door="([^"]*)"', answer.text)
        assert door is not None
        assert inside(door[1]) == door[1]


async def test_files_need_no_key(make_client: MakeClient) -> None:
    async with make_client(KEY) as http:
        for name in ("console.css", "console.js", "icon.svg"):
            assert (await http.get(f"/static/{name}")).status_code == 200
        for path in ("/static/..%2f..%2fproblems.py", "/static/x", "/sign-in/x"):
            assert (await http.get(path)).status_code in (401, 404)


REFUSED: list[tuple[dict[str, Any], int, str]] = [
    ({}, 403, "forbidden"),
    ({"Content-Type": "application/json"}, 403, "forbidden"),
    ({"Origin": HOST}, 415, "unsupported-media-type"),
    ({"Origin": HOST, "Content-Type": "text/plain"}, 415, "unsupported-media-type"),
    (OWN | {"Origin": "http://127.0.0.1:9000"}, 403, "forbidden"),
    (OWN | {"Origin": "null"}, 403, "forbidden"),
    (OWN | {"Sec-Fetch-Site": "same-site"}, 403, "forbidden"),
    (OWN | {"Sec-Fetch-Site": "cross-site"}, 403, "forbidden"),
    ({"Content-Type": "application/json", "Sec-Fetch-Site": "none"}, 403, "forbidden"),
]


@pytest.mark.parametrize(("headers", "status", "slug"), REFUSED)
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/runs"),
        ("POST", "/v1/runs/run_1/cancel"),
        ("POST", "/v1/waits/wait_1/resolve"),
        ("DELETE", "/v1/rules/rule_1"),
    ],
)
async def test_with_a_cookie_only_json_of_our_own_pages_is_taken(
    make_client: MakeClient,
    method: str,
    path: str,
    headers: dict[str, str],
    status: int,
    slug: str,
) -> None:
    async with make_client(KEY) as http:
        answer = await http.request(method, path, headers=cookie() | headers)
        assert_problem(answer, status, slug)


async def test_with_a_cookie_our_own_page_may_write(make_client: MakeClient) -> None:
    for headers in (OWN, OWN | {"Sec-Fetch-Site": "same-origin"}):
        async with make_client(KEY) as http:
            answer = await http.post("/v1/runs", headers=cookie() | headers)
            assert_problem(answer, 422, "invalid-request")


async def test_the_key_itself_needs_no_page(make_client: MakeClient) -> None:
    async with make_client(KEY) as http:
        headers = cookie() | {"x-api-key": KEY, "Origin": "https://console.example"}
        assert_problem(await http.post("/v1/runs", headers=headers), 422, "invalid-request")


@pytest.mark.parametrize("key", [None, KEY])
async def test_another_page_may_not_look_inside_but_a_person_may_come_from_it(
    make_client: MakeClient, key: str | None
) -> None:
    async with make_client(key) as http:
        given = cookie() if key else {}
        for site in ("cross-site", "same-site"):
            sent = given | {"Sec-Fetch-Site": site}
            for mode, dest in (("no-cors", "script"), ("cors", "empty"), ("navigate", "iframe")):
                headers = sent | {"Sec-Fetch-Mode": mode, "Sec-Fetch-Dest": dest}
                assert_problem(await http.get(BEHIND, headers=headers), 403, "forbidden")
            headers = sent | {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
            assert_problem(await http.get(BEHIND, headers=headers), 404, "not-found")
        for site in ("same-origin", "none"):
            headers = given | {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors"}
            assert_problem(await http.get(BEHIND, headers=headers), 404, "not-found")
