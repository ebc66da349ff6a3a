from collections.abc import AsyncIterator
from dataclasses import replace

import httpx
import pytest
import pytest_asyncio

from app.delivery.hub import Hub
from app.http.application import build
from app.http.parts import Parts
from app.http.schemas import answers
from app.services.context import Callbacks, Services
from tests.integration.http.conftest import BASE_URL
from tests.integration.http.rows import Rows
from tests.integration.http.test_runs import get
from tests.integration.http.test_submitting import RUN

URL = "https://hooks.example/perdure?key=1"


@pytest_asyncio.fixture
async def http(services: Services) -> AsyncIterator[httpx.AsyncClient]:
    """With a secret to sign by."""
    signed = replace(services, callbacks=Callbacks(are_signed=True))
    app = build(Parts(signed, Hub(services.database), lambda: True), key=None)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url=BASE_URL) as client:
        yield client


async def submit(http: httpx.AsyncClient, url: str = URL) -> str:
    response = await http.post("/v1/runs", json=RUN | {"callback": {"url": url}})
    assert response.status_code == 202, response.text
    return str(response.json()["id"])


async def test_a_run_with_a_callback_has_something_to_deliver(http: httpx.AsyncClient) -> None:
    run = await submit(http)

    (delivery,) = (await get(http, "/v1/webhooks/deliveries?state=pending"))["data"]
    answers.Delivery.model_validate(delivery)
    assert delivery["id"] == f"hook_{run.removeprefix('run_')}_1"
    assert (delivery["run"], delivery["seq"], delivery["type"]) == (run, 1, "run.queued")
    assert (delivery["url"], delivery["state"], delivery["attempts"]) == (URL, "pending", 0)
    assert delivery["next_attempt_at"] is not None
    assert (await get(http, "/v1/webhooks/deliveries?state=dead"))["data"] == []


async def test_a_submission_that_is_repeated_delivers_once(
    http: httpx.AsyncClient, rows: Rows
) -> None:
    for status in (202, 200):
        response = await http.post(
            "/v1/runs",
            json=RUN | {"callback": {"url": URL}},
            headers={"Idempotency-Key": "once"},
        )
        assert response.status_code == status

    assert await rows.count("deliveries") == 1


async def test_deliveries_come_in_pages(http: httpx.AsyncClient) -> None:
    runs = [await submit(http) for _ in range(3)]

    first = await get(http, "/v1/webhooks/deliveries?limit=2")
    rest = await get(http, f"/v1/webhooks/deliveries?limit=2&after={first['next']}")
    found = [delivery["run"] for delivery in first["data"] + rest["data"]]
    assert (found, rest["next"]) == (runs[::-1], None)
    (own,) = (await get(http, f"/v1/webhooks/deliveries?run={runs[1]}"))["data"]
    assert own["run"] == runs[1]


@pytest.mark.parametrize("state", ["pending", "delivered", "dead"])
async def test_whatever_became_of_it_it_can_be_delivered_again(
    http: httpx.AsyncClient, rows: Rows, state: str
) -> None:
    await submit(http)
    await rows.execute(
        """update perdure.deliveries set state = %s, attempts = 9, first_attempt_at = now(),
               body = '{}', due_at = now() + interval '1 day',
               delivered_at = case when %s = 'delivered' then now() end""",
        state,
        state,
    )
    (delivery,) = (await get(http, "/v1/webhooks/deliveries"))["data"]

    response = await http.post(f"/v1/webhooks/deliveries/{delivery['id']}/redeliver")

    assert response.status_code == 202
    again = response.json()
    assert (again["id"], again["state"], again["attempts"]) == (delivery["id"], "pending", 0)
    assert again["delivered_at"] is None
    found = await rows.execute("select body, due_at <= clock_timestamp() from perdure.deliveries")
    assert found == [("{}", True)]


async def test_what_is_not_there_is_not_delivered_again(http: httpx.AsyncClient) -> None:
    response = await http.post("/v1/webhooks/deliveries/hook_none_1/redeliver")

    assert (response.status_code, response.json()["type"]) == (404, "/problems/not-found")


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1/", "https://[fd00::1]/", "ftp://a.example/", "https://u@a.example/"]
)
async def test_a_callback_that_leads_astray_is_refused(
    http: httpx.AsyncClient, rows: Rows, url: str
) -> None:
    response = await http.post("/v1/runs", json=RUN | {"callback": {"url": url}})

    assert response.status_code == 422
    (error,) = response.json()["errors"]
    assert error["field"] == "callback.url"
    assert await rows.count("runs") == 0
