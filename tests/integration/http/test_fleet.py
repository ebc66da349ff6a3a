from typing import Any

import httpx

from app import Agent, Limits
from app.http.schemas import fleet
from tests.integration.http.rows import Rows
from tests.integration.http.test_runs import get
from tests.support.tools import pay_idem, refund

desk = Agent(
    name="Desk",
    model="claude-test",
    instructions="Help.",
    tools=[pay_idem, refund],
    limits=Limits(turns=7),
    approvals={"pay_idem": "always"},
)
plain = Agent(name="a-plain", model="claude-test")


def definition(agent: Agent) -> dict[str, Any]:
    return agent.definition() | {"version": agent.version}


async def clear(rows: Rows) -> None:
    await rows.execute("delete from perdure.agents")
    await rows.execute("delete from perdure.agent_versions")


async def test_agents_are_listed_with_their_live_workers(
    http: httpx.AsyncClient, rows: Rows
) -> None:
    await clear(rows)
    await rows.agent("Desk", definition(desk))
    await rows.agent("a-plain", definition(plain))
    await rows.worker("w1", "Desk", "other")
    await rows.worker("w2", "Desk")
    await rows.worker("w3", "Desk", alive=False)

    first = await get(http, "/v1/agents?limit=1")
    second = await get(http, f"/v1/agents?limit=1&after={first['next']}")

    assert [agent["name"] for agent in first["data"] + second["data"]] == ["Desk", "a-plain"]
    assert second["next"] is None
    assert first["data"][0] == {
        "name": "Desk",
        "version": desk.version,
        "model": "claude-test",
        "instructions": "Help.",
        "tools": ["pay_idem", "refund"],
        "limits": desk.limits.to_json(),
        "worker_count": 2,
    }
    assert second["data"][0]["worker_count"] == 0
    fleet.Agent.model_validate(first["data"][0])


async def test_tools_are_listed_with_their_promises(http: httpx.AsyncClient, rows: Rows) -> None:
    await clear(rows)
    await rows.agent("Desk", definition(desk))

    first = await get(http, "/v1/tools?limit=1")
    second = await get(http, f"/v1/tools?after={first['next']}")

    (pay,), (back,) = first["data"], second["data"]
    assert (pay["agent"], pay["name"], pay["replay"]) == ("Desk", "pay_idem", "idempotent")
    assert pay["approval"] == "always"  # the agent is stricter than the tool
    assert pay["input_schema"]["properties"].keys() == {"ref", "amount"}
    assert back["name"] == "refund"
    for tool in (pay, back):
        assert {"reconcile", "compensate", "precondition"} <= tool["has"].keys()
        fleet.Tool.model_validate(tool)


async def test_workers_are_listed_with_lease_and_legs(http: httpx.AsyncClient, rows: Rows) -> None:
    held = await rows.worker("w-held", "desk", "other")
    await rows.worker("w-lost", "desk", alive=False)
    await rows.worker("a-dead", dead_at="2999-01-01", death="exited", alive=False)
    await rows.worker("w-old", dead_at="2020-01-01", death="exited", alive=False)
    run = await rows.run(status="running", owner=held, leg=3)
    await rows.run(status="succeeded", owner=held, finished_at="2020-01-01")

    shown = (await get(http, "/v1/workers"))["data"]

    leases = [(worker["id"], worker["lease"]) for worker in shown]
    assert leases == [("w-held", "held"), ("a-dead", "lost"), ("w-lost", "lost")]
    worker = shown[0]
    assert worker["legs"] == [{"run": run, "leg": 3}]
    assert worker["agents"] == ["desk", "other"]
    assert {"host", "pid", "version", "started_at", "last_beat_at"} <= worker.keys()
    for each in shown:
        fleet.Worker.model_validate(each)
    first = await get(http, "/v1/workers?limit=1")
    rest = await get(http, f"/v1/workers?after={first['next']}")
    assert first["data"] + rest["data"] == shown


async def test_a_session_lists_its_runs_and_the_active_one(
    http: httpx.AsyncClient, rows: Rows
) -> None:
    ended = await rows.run(session="ses_1")
    await rows.end(ended)
    active = await rows.run(session="ses_1", status="running")
    held = await rows.run(session="ses_1", held=True)

    shown = await get(http, "/v1/sessions/ses_1")

    fleet.Session.model_validate(shown)
    assert shown["runs"] == [ended, active, held]
    assert shown["active_run"] == active
    assert (await http.get("/v1/sessions/ses_2")).status_code == 404
