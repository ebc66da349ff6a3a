import httpx
import pytest

from tests.unit.http.bad_bodies import OTHER_BODIES, RUN_BODIES, run

JSON = {"Content-Type": "application/json"}


def assert_problem(response: httpx.Response, status: int, slug: str) -> None:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    problem = response.json()
    assert problem["type"] == f"/problems/{slug}"
    assert problem["status"] == status
    assert problem["title"]
    assert problem["detail"]
    assert len(response.headers["x-request-id"]) == 32


def fields_of(response: httpx.Response) -> list[str]:
    assert_problem(response, 422, "invalid-request")
    return [error["field"] for error in response.json()["errors"]]


@pytest.mark.parametrize(
    ("body", "field"), [pytest.param(*case[1:], id=case[0]) for case in RUN_BODIES]
)
async def test_a_bad_run_is_refused_by_field(
    http: httpx.AsyncClient, body: bytes, field: str
) -> None:
    response = await http.post("/v1/runs", content=body, headers=JSON)

    assert fields_of(response) == [field]


@pytest.mark.parametrize(
    ("path", "body", "field"), [pytest.param(*case[1:], id=case[0]) for case in OTHER_BODIES]
)
async def test_a_bad_body_is_refused_by_field(
    http: httpx.AsyncClient, path: str, body: bytes, field: str
) -> None:
    response = await http.post(path, content=body, headers=JSON)

    assert fields_of(response) == [field]


async def test_all_that_is_wrong_is_told_at_once(http: httpx.AsyncClient) -> None:
    body = {"input": "", "priority": "high", "limits": {"turns": 0}, "color": "red"}

    response = await http.post("/v1/runs", json=body)

    assert sorted(fields_of(response)) == ["agent", "color", "input", "limits.turns", "priority"]


async def test_very_many_errors_make_no_long_answer(http: httpx.AsyncClient) -> None:
    body = {f"field{n}" * 100: n for n in range(1000)}

    response = await http.post("/v1/runs", json=body)

    assert len(fields_of(response)) == 20
    assert len(response.content) < 10_000


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"input": [{"type": "text", "text": "hi"}, {"type": "image", "source": {"n": 1.5}}]},
        {"input": "\U0001f600 \ufeff \u2028 \\u0000"},
        {"limits": {"turns": 3, "tokens": None, "cost_usd": 0.25, "seconds": 2, "calls": 1}},
        {"limits": {"cost_usd": "12.345678"}},
        {"session": "ses_A-1", "target": "order 7/ä", "on_busy": "supersede", "priority": 1000},
        {"queue_key": "acme.eu/team-1:a_b@c" + "d" * 108},
        {"deadline": "2099-12-31t23:59:59.123456789+02:00"},
        {"metadata": {"k" * 64: "v" * 512}},
        {"session": None, "target": None, "deadline": None, "callback": None},
    ],
)
async def test_a_good_run_gets_as_far_as_the_database(
    http: httpx.AsyncClient, fields: dict[str, object]
) -> None:
    response = await http.post("/v1/runs", content=run(**fields), headers=JSON)

    assert_problem(response, 503, "database-unavailable")
    assert response.headers["retry-after"] == "2"


@pytest.mark.parametrize(
    ("content_type", "accepted"),
    [
        ("application/json", True),
        ("application/json; charset=utf-8", True),
        ('Application/JSON;charset="UTF-8"', True),
        ("application/json; charset=latin-1", False),
        ("application/problem+json", False),
        ("text/plain", False),
        ("application/x-www-form-urlencoded", False),
        ("multipart/form-data; boundary=x", False),
        ("json", False),
        ("", False),
    ],
)
async def test_only_json_in_utf8_is_a_body(
    http: httpx.AsyncClient, content_type: str, accepted: bool
) -> None:
    headers = {"Content-Type": content_type} if content_type else {}

    response = await http.post("/v1/runs", content=run(), headers=headers)

    if accepted:
        assert response.status_code == 503
    else:
        assert_problem(response, 415, "unsupported-media-type")


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/v1/runs?limit=0", "limit"),
        ("/v1/runs?limit=201", "limit"),
        ("/v1/runs?limit=ten", "limit"),
        ("/v1/runs?limit=", "limit"),
        ("/v1/runs?limit=99999999999999999999999999", "limit"),
        ("/v1/runs?status=done", "status"),
        ("/v1/runs?agent=a%00", "agent"),
        ("/v1/runs?colour=red", "colour"),
        ("/v1/runs?created_after=yesterday", "created_after"),
        ("/v1/runs?created_before=2020-01-01T00:00:00", "created_before"),
        ("/v1/runs?after=x", "after"),
        ("/v1/runs?after=%00", "after"),
        ("/v1/runs?after=%F0%9F%98%80", "after"),
        ("/v1/runs?after=W10=", "after"),
        ("/v1/runs?after=eyJhIjoxfQ==", "after"),
        ("/v1/runs?after=" + "W" * 1001, "after"),
        ("/v1/waits?kind=question", "kind"),
        ("/v1/waits?state=closed", "state"),
        ("/v1/waits?run=%00", "run"),
        ("/v1/runs/run_1/events?after=-1", "after"),
        ("/v1/runs/run_1/events?after=x", "after"),
        ("/v1/runs/run_1/events?after=9223372036854775808", "after"),
        ("/v1/runs/run_1/turns?after=1", "after"),
        ("/v1/runs/run_1?deltas=1", "deltas"),
        ("/v1/webhooks/deliveries?state=lost", "state"),
        ("/v1/agents?after=desk", "after"),
        ("/v1/sessions/ses_1?limit=1", "limit"),
        ("/v1/sessions/ses_1/transcript?limit=1", "limit"),
        ("/v1/rules?run=run_1", "run"),
        ("/v1/rules?tool=%00", "tool"),
        ("/v1/rules?after=x", "after"),
    ],
)
async def test_a_bad_query_is_refused_by_name(
    http: httpx.AsyncClient, path: str, field: str
) -> None:
    assert fields_of(await http.get(path)) == [field]


@pytest.mark.parametrize("key", ["", '""', "a b", "ä", "x" * 256, "a\x7f"])
async def test_a_bad_idempotency_key_is_refused(http: httpx.AsyncClient, key: str) -> None:
    raw = [("Idempotency-Key", key.encode("latin-1")), ("Content-Type", b"application/json")]

    response = await http.post("/v1/runs", content=run(), headers=raw)  # type: ignore[arg-type]

    assert fields_of(response) == ["Idempotency-Key"]


@pytest.mark.parametrize(
    "id", ["a%00b", "%ff%fe", "%ed%a0%80", "a%0ab", "a'b", "a b", "%F0%9F%98%80", "a" * 200, "a;b"]
)
@pytest.mark.parametrize("path", ["/v1/runs/{}", "/v1/runs/{}/events", "/v1/waits/{}"])
async def test_an_odd_id_is_not_found(http: httpx.AsyncClient, path: str, id: str) -> None:
    assert_problem(await http.get(path.format(id)), 404, "not-found")


@pytest.mark.parametrize(
    "path", ["/v1", "/v2/runs", "/v1/runs/", "/v1/runs/a/b/c", "/v1//runs", "/docs", "/redoc"]
)
async def test_an_unknown_path_is_not_found(http: httpx.AsyncClient, path: str) -> None:
    assert_problem(await http.get(path), 404, "not-found")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/v1/runs", "GET, HEAD, OPTIONS, POST"),
        ("POST", "/v1/runs/run_1", "GET, HEAD, OPTIONS"),
        ("GET", "/v1/runs/run_1/cancel", "OPTIONS, POST"),
        ("DELETE", "/v1/runs/run_1/messages", "GET, HEAD, OPTIONS, POST"),
        ("TRACE", "/health/live", "GET, HEAD, OPTIONS"),
        ("BREW", "/openapi.json", "GET, HEAD, OPTIONS"),
    ],
)
async def test_a_wrong_method_is_told_the_right_ones(
    http: httpx.AsyncClient, method: str, path: str, allowed: str
) -> None:
    response = await http.request(method, path)

    assert_problem(response, 405, "method-not-allowed")
    assert response.headers["allow"] == allowed


async def test_options_tells_the_methods(http: httpx.AsyncClient) -> None:
    response = await http.options("/v1/runs")

    assert (response.status_code, response.content) == (204, b"")
    assert response.headers["allow"] == "GET, HEAD, OPTIONS, POST"


async def test_head_is_get_without_the_body(http: httpx.AsyncClient) -> None:
    response = await http.head("/health/live")

    assert (response.status_code, response.content) == (200, b"")
    assert response.headers["content-length"] == str(len('{"status":"ok"}\n'))
