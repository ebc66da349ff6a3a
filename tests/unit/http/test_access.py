import httpx
import pytest

from tests.unit.http.conftest import MakeClient
from tests.unit.http.test_bad_input import assert_problem

KEY = "s3cret-key"
BEHIND = "/v1/runs/a%20b"  # 404 for whoever may ask, without a look at the database


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": f"Bearer {KEY}"},
        {"Authorization": f"bearer  {KEY}"},
        {"x-api-key": KEY},
        {"Authorization": "Basic abc", "x-api-key": KEY},
    ],
)
async def test_the_key_opens(make_client: MakeClient, headers: dict[str, str]) -> None:
    async with make_client(KEY) as http:
        assert_problem(await http.get(BEHIND, headers=headers), 404, "not-found")


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": KEY},
        {"Authorization": f"Basic {KEY}"},
        {"Authorization": "Bearer"},
        {"Authorization": f"Bearer {KEY}x"},
        {"x-api-key": KEY.upper()},
        {"x-api-key": ""},
        {"Authorization": "Bearer \xe4\xf6"},
    ],
)
async def test_without_the_key_nothing_opens(
    make_client: MakeClient, headers: dict[str, str]
) -> None:
    async with make_client(KEY) as http:
        raw = [(name, value.encode("latin-1")) for name, value in headers.items()]
        for path in (BEHIND, "/v1/runs", "/nowhere", "/openapi.json"):
            response = await http.get(path, headers=raw)  # type: ignore[arg-type]
            assert_problem(response, 401, "unauthorized")
            assert response.headers["www-authenticate"] == "Bearer"


async def test_a_key_is_asked_for_before_the_body_is_looked_at(make_client: MakeClient) -> None:
    async with make_client(KEY) as http:
        assert_problem(await http.post("/v1/runs", content=b"x" * 2**21), 401, "unauthorized")


async def test_health_needs_no_key(make_client: MakeClient) -> None:
    async with make_client(KEY, "http://anything.example") as http:
        assert (await http.get("/health/live")).status_code == 200
        assert (await http.get("/health/ready")).status_code == 503


async def test_with_a_key_any_host_and_origin_will_do(make_client: MakeClient) -> None:
    headers = {"x-api-key": KEY, "Origin": "https://console.example"}
    async with make_client(KEY, "http://perdure.example") as http:
        assert_problem(await http.post("/v1/runs", headers=headers), 422, "invalid-request")


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:8000", "127.0.0.1", "127.0.0.1:80", "127.9.9.9", "[::1]:8000"]
)
async def test_without_a_key_this_machine_may_ask(http: httpx.AsyncClient, host: str) -> None:
    response = await http.get(BEHIND, headers={"Host": host, "x-api-key": "any"})

    assert_problem(response, 404, "not-found")


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.nip.io",
        "10.0.0.1:8000",
        "0.0.0.0",
        "",
        "[::1",
        "[::ffff:10.0.0.1]",
    ],
)
async def test_without_a_key_no_other_name_of_this_machine_will_do(
    http: httpx.AsyncClient, host: str
) -> None:
    assert_problem(await http.get(BEHIND, headers={"Host": host}), 403, "forbidden")


async def test_two_hosts_are_none(http: httpx.AsyncClient) -> None:
    headers = [("Host", "localhost"), ("Host", "evil.example")]

    assert_problem(await http.get(BEHIND, headers=headers), 403, "forbidden")


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://localhost:3000", "http://127.0.0.1"]
)
async def test_without_a_key_a_foreign_page_may_not_write(
    http: httpx.AsyncClient, origin: str
) -> None:
    assert_problem(await http.post("/v1/runs", headers={"Origin": origin}), 403, "forbidden")
    assert_problem(await http.get(BEHIND, headers={"Origin": origin}), 404, "not-found")


async def test_without_a_key_a_page_of_our_own_may_write(http: httpx.AsyncClient) -> None:
    headers = {"Origin": "http://127.0.0.1:8000"}

    assert_problem(await http.post("/v1/runs", headers=headers), 422, "invalid-request")
