import httpx

from tests.integration.http.rows import Rows
from tests.integration.http.test_runs import get


async def test_the_list_goes_back_in_time_page_by_page(http: httpx.AsyncClient, rows: Rows) -> None:
    made = [await rows.run(created_at=f"2030-01-0{1 + n // 2}") for n in range(5)]
    expected = sorted(made, key=lambda run: (made.index(run) // 2, run), reverse=True)

    seen: list[str] = []
    after = ""
    while True:
        page = await get(http, f"/v1/runs?limit=2{after}")
        seen += [run["id"] for run in page["data"]]
        if page["next"] is None:
            break
        after = f"&after={page['next']}"

    assert seen == expected


async def test_runs_are_filtered(http: httpx.AsyncClient, rows: Rows) -> None:
    old = await rows.run(created_at="2020-01-01T00:00:00Z", agent="other", session="ses_A")
    done = await rows.run(created_at="2021-01-01T00:00:00Z", target="t 1", queue_key="acme")
    await rows.end(done)
    new = await rows.run(created_at="2022-01-01T00:00:00Z")

    async def ids(query: str) -> list[str]:
        return [run["id"] for run in (await get(http, f"/v1/runs?{query}"))["data"]]

    assert await ids("") == [new, done, old]
    assert await ids("agent=other") == [old]
    assert await ids("session=ses_A") == [old]
    assert await ids("status=succeeded") == [done]
    assert await ids("target=t%201") == [done]
    assert await ids("queue_key=acme") == [done]
    assert await ids("created_after=2020-06-01T00:00:00Z") == [new, done]
    assert await ids("created_before=2021-01-01T02:00:00%2B02:00") == [old]
    assert await ids("created_before=2021-01-01T02:00:00+02:00") == [old]
    assert await ids("agent=desk&status=queued") == [new]
    assert await ids("agent=nobody") == []


async def test_a_cursor_of_other_filters_is_refused(http: httpx.AsyncClient, rows: Rows) -> None:
    await rows.run()
    await rows.run()
    cursor = (await get(http, "/v1/runs?limit=1&agent=desk"))["next"]

    for path in ("/v1/runs", "/v1/runs?agent=other", "/v1/waits", "/v1/agents", "/v1/workers"):
        response = await http.get(path, params={**httpx.URL(path).params, "after": cursor})
        assert response.status_code == 422, path
        assert [error["field"] for error in response.json()["errors"]] == ["after"]
