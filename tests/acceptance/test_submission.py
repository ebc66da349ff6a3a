"""Submitting: one key, one run; bad input leaves nothing behind; Prefer waits for the end."""

import asyncio
from typing import Any

import httpx
import pytest

from tests.support.client import Client
from tests.support.deployment import Deployment
from tests.support.scripts import say, script, use
from tests.support.world import World

DONE = script(say("done"))
MEGABYTE = 1024 * 1024
BAD_BODIES: dict[str, tuple[dict[str, Any], str, int]] = {
    "unknown_agent": ({"agent": "nobody", "input": "x"}, "agent-not-found", 422),
    "no_input": ({"agent": "desk"}, "invalid-request", 422),
    "unknown_field": ({"agent": "desk", "input": "x", "inptu": 1}, "invalid-request", 422),
    "wrong_type": ({"agent": ["desk"], "input": "x"}, "invalid-request", 422),
    "nul": ({"agent": "desk", "input": "a\x00b"}, "invalid-request", 422),
    "lone_surrogate": ({"agent": "desk", "input": "a\ud800b"}, "invalid-request", 422),
    "bad_session": ({"agent": "desk", "input": "x", "session": "a b"}, "invalid-request", 422),
    "bad_limit": ({"agent": "desk", "input": "x", "limits": {"turns": -1}}, "invalid-request", 422),
    "too_much_metadata": (
        {"agent": "desk", "input": "x", "metadata": {f"k{n}": "v" for n in range(17)}},
        "invalid-request",
        422,
    ),
    "over_a_megabyte": ({"agent": "desk", "input": "x" * MEGABYTE}, "too-large", 413),
    "ten_megabytes": ({"agent": "desk", "input": "x" * 10 * MEGABYTE}, "too-large", 413),
}


pytestmark = pytest.mark.calm


def assert_problem(response: httpx.Response, slug: str, status: int) -> None:
    assert (response.status_code, response.json()["type"]) == (status, f"/problems/{slug}")
    assert response.headers["content-type"].startswith("application/problem+json")
    assert response.json()["status"] == status
    assert response.json()["detail"]


async def test_an_accepted_run_says_where_it_is(client: Client) -> None:
    response = await client.post_run({"agent": "desk", "input": DONE, "metadata": {"a": "b"}})
    run = response.json()
    assert response.status_code == 202
    assert response.headers["location"].endswith(f"/v1/runs/{run['id']}")
    assert run["id"].startswith("run_")
    assert run["session"].startswith("ses_")
    assert (run["agent"], run["root"], run["metadata"]) == ("desk", run["id"], {"a": "b"})
    assert run["status"] in ("queued", "running", "succeeded")


@pytest.mark.case("A25")
@pytest.mark.parametrize("key", ["bare-a25", '"quoted-a25"'])
async def test_one_key_is_one_run(world: World, client: Client, key: str) -> None:
    body = {"agent": "desk", "input": script(use("pay_idem", ref=key), say("paid"))}
    first = await client.post_run(body, Idempotency_Key=key)
    await client.succeeded(first.json()["id"])
    again = await client.post_run(body, Idempotency_Key=key)
    assert (first.status_code, again.status_code) == (202, 200)
    assert again.json()["id"] == first.json()["id"]
    assert again.headers["idempotent-replayed"] == "true"
    other = await client.post_run(body | {"input": DONE}, Idempotency_Key=key)
    assert_problem(other, "idempotency-key-reused", 422)
    assert len(world.payments.rows_for(key)) == 1


@pytest.mark.case("B78")
async def test_one_key_at_two_processes_at_once_is_one_run(
    client: Client, deployment: Deployment
) -> None:
    body = {"agent": "desk", "input": DONE, "metadata": {"case": "b78"}}
    async with Client(await deployment.start_another_api()) as other:
        answers = await asyncio.gather(
            *(
                (client, other)[n % 2].post_run(body, Idempotency_Key="b78", Prefer="respond-async")
                for n in range(20)
            )
        )
    assert {answer.status_code for answer in answers} <= {200, 202}
    assert [answer.status_code for answer in answers].count(202) == 1
    assert len({answer.json()["id"] for answer in answers}) == 1
    runs = (await client.http.get("/v1/runs", params={"limit": 200})).json()["data"]
    assert [run["metadata"] for run in runs].count({"case": "b78"}) == 1


@pytest.mark.parametrize("name", BAD_BODIES)
async def test_a_bad_body_is_explained_and_leaves_nothing(client: Client, name: str) -> None:
    body, slug, status = BAD_BODIES[name]
    before = await newest_run(client)
    assert_problem(await client.post_run(body, Idempotency_Key=f"bad-{name}"), slug, status)
    assert await newest_run(client) == before
    good = await client.post_run({"agent": "desk", "input": DONE}, Idempotency_Key=f"bad-{name}")
    assert good.status_code == 202


async def newest_run(client: Client) -> str | None:
    runs = (await client.http.get("/v1/runs", params={"limit": 1})).json()["data"]
    return runs[0]["id"] if runs else None


async def test_what_is_no_json_is_refused(client: Client) -> None:
    broken = await client.http.post(
        "/v1/runs", content=b'{"agent": "desk"', headers={"content-type": "application/json"}
    )
    assert_problem(broken, "invalid-request", 422)
    form = await client.http.post("/v1/runs", data={"agent": "desk", "input": "x"})
    assert_problem(form, "unsupported-media-type", 415)


async def test_what_is_not_there_is_said_so(client: Client) -> None:
    for path in ("/v1/runs/run_" + "0" * 26, "/v1/runs/nonsense", "/v1/nowhere"):
        assert_problem(await client.http.get(path), "not-found", 404)
    assert_problem(await client.http.put("/v1/runs", json={}), "method-not-allowed", 405)
    cursor = await client.http.get("/v1/runs", params={"after": "not-a-cursor"})
    assert_problem(cursor, "invalid-request", 422)


async def test_a_patient_client_gets_the_ended_run(client: Client) -> None:
    response = await client.post_run({"agent": "desk", "input": DONE}, Prefer="wait=30")
    assert (response.status_code, response.json()["status"]) == (200, "succeeded")
    assert response.json()["output"]["text"] == "done"


async def test_a_patient_client_hears_that_a_person_is_needed(client: Client) -> None:
    body = {"agent": "desk", "input": script(use("refund", ref="patient"), say("done"))}
    response = await client.post_run(body, Prefer="wait=30")
    assert (response.status_code, response.json()["status"]) == (202, "waiting")
    assert response.json()["waiting_for"][0]["tool"] == "refund"


@pytest.mark.case("B69")
async def test_an_ended_run_has_its_text_the_moment_it_reads_ended(client: Client) -> None:
    runs = [await client.submit(say(f"text {n}")) for n in range(25)]

    async def check(n: int, run: str) -> None:
        ended = await client.succeeded(run)
        assert ended["output"]["text"] == f"text {n}"
        assert ended["finished_at"]
        assert (await client.events(run))[-1]["type"] == "run.succeeded"
        assert (await client.turns(run))[-1]["content"] == [{"type": "text", "text": f"text {n}"}]

    await asyncio.gather(*(check(n, run["id"]) for n, run in enumerate(runs)))


async def test_runs_of_one_session_follow_each_other(world: World, client: Client) -> None:
    gate = world.gate("first:before")
    first = await client.submit(use("count", name="first"), say("one"), session="line")
    await gate.reached()
    second = await client.submit(use("count", name="second"), say("two"), session="line")
    busy = await client.post_run(
        {"agent": "desk", "input": DONE, "session": "line", "on_busy": "reject"}
    )
    assert_problem(busy, "target-busy", 409)
    assert (await client.run(second["id"]))["status"] == "queued"
    assert world.effects.count("second") == 0
    gate.open()
    for run in (first, second):
        await client.succeeded(run["id"])
    assert world.effects.count("second") == 1


async def test_a_run_is_under_the_trace_of_its_submitter(client: Client) -> None:
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    response = await client.post_run(
        {"agent": "desk", "input": DONE}, traceparent=f"00-{trace}-00f067aa0ba902b7-01"
    )
    assert response.json()["trace_id"] == trace


async def test_what_there_is_can_be_listed(client: Client) -> None:
    agents = (await client.http.get("/v1/agents")).json()["data"]
    assert {"desk", "reader", "cautious"} <= {agent["name"] for agent in agents}
    tools = (await client.http.get("/v1/tools", params={"limit": 200})).json()["data"]
    policies = {t["name"]: t["replay"] for t in tools if t["agent"] == "desk"}
    assert policies["doc_read"] == "read_only"
    assert policies["pay_idem"] == "idempotent"
    assert policies["pay_once"] == "at_most_once"
    assert policies["note_tx"] == "transactional"


async def test_the_doctor_finds_nothing_wrong(deployment: Deployment) -> None:
    assert await deployment.doctor() == 0
