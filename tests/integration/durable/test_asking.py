"""Calls that run nothing: each opens its wait and leaves the rest to whoever answers."""

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any

import pytest
import pytest_asyncio

from app import Agent, Limits, ask_user, sleep_for, sleep_until, tool
from app import delegate as delegate_tool
from app.domain.canonical import digest
from app.durable import ledger
from app.durable.attempt import Attempt
from app.durable.children import DEEPEST
from app.durable.execution import Bench
from app.services.context import Services
from app.store import agents
from app.store.calls import Intent
from app.store.db import rows
from tests.integration.store.legwork import benched, delegate, execute
from tests.integration.store.stage import Stage


@tool(external=True, expires=timedelta(hours=1))
async def sign(ref: str) -> None:
    """Sign a paper, on the client's side."""


HOST = Agent(
    name="host",
    model="claude-test",
    tools=[ask_user, sleep_for, sleep_until, delegate_tool, sign],
    limits=Limits(turns=7),
)


@pytest_asyncio.fixture
async def bench(stage: Stage, services: Services) -> AsyncIterator[Bench]:
    await agents.register(stage.connection, HOST.name, "v1", HOST.definition())
    async with benched(services, [HOST]) as bench:
        yield bench


async def ask(stage: Stage, bench: Bench, name: str, **arguments: Any) -> tuple[str, str]:
    """The leg comes to the call; the run and the call."""
    run, fence, call = await stage.calling(name, agent="host")
    await execute(bench, run, fence)
    declared = HOST.tool(name)
    assert declared is not None
    stored = declared.parse(arguments)
    intent = Intent(stored, digest(stored), declared.replay, "never")
    found = await ledger.load(run, 1, 0)
    assert not await Attempt.next(found, declared, intent).run()
    return run, call


async def wait_of(stage: Stage, call: str) -> dict[str, Any]:
    assert (await stage.call(call))["state"] == "waiting"
    return await stage.wait(await stage.open_wait(call))


async def test_a_question_is_shown_as_the_model_put_it(stage: Stage, bench: Bench) -> None:
    _, call = await ask(stage, bench, "ask_user", question="Which colour?")

    wait = await wait_of(stage, call)
    assert (wait["kind"], wait["question"], wait["deadline"]) == ("input", "Which colour?", None)
    assert wait["arguments"] == {"question": "Which colour?"}


async def test_what_a_client_runs_is_asked_of_it_for_so_long(stage: Stage, bench: Bench) -> None:
    run, call = await ask(stage, bench, "sign", ref="a")

    wait = await wait_of(stage, call)
    assert (wait["kind"], "sign" in wait["question"]) == ("external", True)
    assert wait["deadline"] - wait["created_at"] == pytest.approx(
        timedelta(hours=1), abs=timedelta(seconds=10)
    )
    assert (await stage.told(run))[-2:] == ["call.started", "wait.opened"]


async def test_a_sleep_is_due_after_its_seconds(stage: Stage, bench: Bench) -> None:
    _, call = await ask(stage, bench, "sleep_for", seconds=90)

    wait = await wait_of(stage, call)
    assert wait["kind"] == "timer"
    assert wait["deadline"] - wait["created_at"] == pytest.approx(
        timedelta(seconds=90), abs=timedelta(seconds=10)
    )


@pytest.mark.parametrize("at", ["2130-01-31T12:00:00+02:00", "2020-01-31T12:00:00Z"])
async def test_a_sleep_until_a_moment_is_due_at_that_moment(
    stage: Stage, bench: Bench, at: str
) -> None:
    _, call = await ask(stage, bench, "sleep_until", at=at)

    assert (await wait_of(stage, call))["deadline"] == datetime.fromisoformat(at)


async def test_a_child_is_queued_with_what_its_agent_declares(stage: Stage, bench: Bench) -> None:
    run, call = await ask(stage, bench, "delegate", agent="host", input="Do a part of it.")

    (child,) = await rows(
        stage.connection, "select * from perdure.runs where parent = %(run)s", run=run
    )
    assert (child["agent"], child["agent_version"], child["depth"]) == ("host", "v1", 1)
    assert (child["input"], child["limits"]["turns"]) == ("Do a part of it.", 7)
    assert await stage.legs(child["id"]) == [1]
    event = await stage.one(
        "select data from perdure.events where run = %(run)s and type = 'run.queued'",
        run=child["id"],
    )
    assert (event["data"]["parent"], event["data"]["call"]) == (run, call)
    assert child["id"] in (await wait_of(stage, call))["question"]


async def test_a_child_goes_before_what_is_new_under_the_key_of_its_parent(
    stage: Stage, bench: Bench
) -> None:
    run, fence, _ = await stage.calling("delegate", agent="host")
    await stage.do(
        "update perdure.runs set priority = 7, queue_key = 'acme' where id = %(run)s", run=run
    )

    await delegate(bench, run, fence, agent="host")

    found = await stage.one(
        """select s.priority, s.queue_partition_key from perdure.runs r
           join dbos.workflow_status s on s.workflow_uuid = r.id || ':1'
           where r.parent = %(run)s""",
        run=run,
    )
    assert found == {"priority": 0, "queue_partition_key": "acme"}


async def test_a_child_of_an_agent_that_nobody_knows_is_refused_with_those_that_are_served(
    stage: Stage, bench: Bench
) -> None:
    await agents.register(stage.connection, "retired", "v1", HOST.definition())
    await stage.do(
        """insert into perdure.workers
               (id, lock, host, pid, boot_id, pid_namespace, process_started, version, agents)
           values ('w', 7, 'h', 1, 'b', 'n', 's', '1', '["host"]')"""
    )
    run, call = await ask(stage, bench, "delegate", agent="nobody", input="x")

    found = await stage.call(call)
    assert (found["state"], found["attempts"]) == ("failed", 0)
    assert found["result"]["error"] == "unknown_agent"
    assert "'nobody'" in found["result"]["detail"]
    assert "There are: host." in found["result"]["detail"]
    assert (await stage.told(run))[-1] == "call.failed"


@pytest.mark.parametrize(("depth", "state"), [(DEEPEST - 1, "waiting"), (DEEPEST, "failed")])
async def test_runs_are_nested_so_deep_and_no_deeper(
    stage: Stage, bench: Bench, depth: int, state: str
) -> None:
    run, fence, call = await stage.calling("delegate", agent="host")
    await stage.do(
        "update perdure.runs set depth = %(depth)s where id = %(run)s", run=run, depth=depth
    )

    await delegate(bench, run, fence, agent="host")

    found = await stage.call(call)
    assert found["state"] == state
    if state == "failed":
        assert found["result"]["error"] == "too_deep"


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("ask_user", {"question": "x"}),
        ("sleep_for", {"seconds": 1}),
        ("sign", {"ref": "a"}),
        ("delegate", {"agent": "host", "input": "x"}),
    ],
)
async def test_nothing_is_waited_for_in_a_run_that_is_being_cancelled(
    stage: Stage, bench: Bench, name: str, arguments: dict[str, Any]
) -> None:
    run, fence, call = await stage.calling(name, agent="host")
    await execute(bench, run, fence)
    found = await ledger.load(run, 1, 0)
    await stage.ask_cancel(run)
    declared = HOST.tool(name)
    assert declared is not None
    intent = Intent(arguments, digest(arguments), declared.replay, "never")

    assert not await Attempt.next(found, declared, intent).run()

    assert (await stage.call(call))["state"] == "proposed"
    children = "select id from perdure.runs where parent = %(run)s"
    assert await rows(stage.connection, children, run=run) == []
