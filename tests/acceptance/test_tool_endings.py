"""How a call ends without any crash, as the table of the tool contract has it."""

import asyncio
from datetime import datetime

import pytest

from tests.support.client import Client, Json
from tests.support.deployment import Deployment
from tests.support.inspection import notes
from tests.support.scripts import Step, say, together, use
from tests.support.world import World

BIG = 300 * 1024
HELD_SECONDS = 0.4


pytestmark = pytest.mark.calm


async def told_after(world: World, client: Client, step: Step, mark: str) -> tuple[Json, Json]:
    """The call that `step` led to, and the result block that the model got for it."""
    run = await client.submit(step, say("understood"), preface=f"<{mark}> ", session=mark)
    await client.succeeded(run["id"], within=60)
    (told,) = world.model.about(f"<{mark}>")[-1].last_results
    return await client.call(run["id"]), told


@pytest.mark.case("B09")
async def test_a_declared_error_runs_once_and_is_told(world: World, client: Client) -> None:
    step = use("user_error", text="no such order")
    call, told = await told_after(world, client, step, "user-error")
    assert world.effects.count("user_error") == 1
    assert call["state"] == "failed"
    assert told["is_error"] is True
    assert "no such order" in str(told["content"])


@pytest.mark.parametrize(
    ("tool", "runs", "state"),
    [
        ("crash_read", 3, "failed"),
        ("crash_idem", 3, "outcome_unknown"),
        ("crash_once", 1, "outcome_unknown"),
        ("times_out", 1, "outcome_unknown"),
    ],
)
async def test_an_undeclared_exception_ends_a_call_by_its_policy(
    world: World, client: Client, tool: str, runs: int, state: str
) -> None:
    call, told = await told_after(world, client, use(tool), tool)
    assert world.effects.count(tool) == runs
    assert (call["state"], call["attempts"]) == (state, runs)
    assert told["is_error"] is True
    assert ("unknown" in str(told["content"]).lower()) == (state == "outcome_unknown")
    assert "Traceback" not in str(told["content"])
    assert len({effect["key"] for effect in world.effects.details(tool)}) == 1


async def test_an_undeclared_exception_rolls_a_transaction_back(
    world: World, client: Client, deployment: Deployment
) -> None:
    call, _ = await told_after(world, client, use("crash_tx", text="gone"), "crash-tx")
    assert (call["state"], world.effects.count("crash_tx")) == ("failed", 3)
    assert notes(deployment.database_url, call["run"]) == []


async def test_a_transient_failure_is_run_again_under_one_key(world: World, client: Client) -> None:
    call, told = await told_after(world, client, use("flaky", failures=1), "flaky")
    assert (call["state"], call["attempts"]) == ("succeeded", 2)
    assert len({effect["key"] for effect in world.effects.details("flaky")}) == 1
    assert not told.get("is_error")


async def test_a_sync_transactional_tool_commits_with_its_outcome(
    world: World, client: Client, deployment: Deployment
) -> None:
    call, _ = await told_after(world, client, use("note_tx_sync", text="kept"), "sync-tx")
    assert call["state"] == "succeeded"
    assert notes(deployment.database_url, call["run"]) == ["kept"]


async def test_an_invented_tool_is_answered_with_the_tools_there_are(
    world: World, client: Client
) -> None:
    run = await client.submit(use("pay_twice", ref="x"), say("sorry"), agent="reader")
    await client.succeeded(run["id"])
    (told,) = world.model.about("pay_twice")[-1].last_results
    assert told["is_error"] is True
    assert "doc_read" in str(told["content"])


async def test_bad_arguments_are_told_and_not_run(world: World, client: Client) -> None:
    step = use("pay_idem", ref="bad-arguments", amount="a lot")
    _, told = await told_after(world, client, step, "bad-arguments")
    assert told["is_error"] is True
    assert "amount" in str(told["content"])
    assert world.payments.calls_for("bad-arguments") == []


async def test_a_result_too_large_is_told_as_done(world: World, client: Client) -> None:
    call, told = await told_after(world, client, use("big", size=BIG), "too-large")
    assert call["state"] == "succeeded"
    assert call["result"]["error"] == "result_too_large"
    assert call["result"]["bytes"] >= BIG
    assert world.effects.count("big") == 1
    assert len(str(told["content"])) < 2000


async def test_a_reading_too_large_fails(world: World, client: Client) -> None:
    call, told = await told_after(world, client, use("big_read", size=BIG), "too-large-read")
    assert call["state"] == "failed"
    assert told["is_error"] is True


async def test_an_unencodable_result_ends_the_call(world: World, client: Client) -> None:
    call, told = await told_after(world, client, use("unencodable"), "unencodable")
    assert call["state"] in ("succeeded", "failed", "outcome_unknown")
    assert len({effect["key"] for effect in world.effects.details("unencodable")}) == 1
    assert "object at 0x" not in str(told["content"])


async def test_a_tool_that_exits_the_interpreter_takes_no_worker_along(
    world: World, client: Client, deployment: Deployment
) -> None:
    _, told = await told_after(world, client, use("interpreter_exit"), "exit")
    assert told["is_error"] is True
    assert deployment.worker.exit_code is None


async def test_a_hook_changes_the_arguments_once_and_visibly(world: World, client: Client) -> None:
    call, _ = await told_after(world, client, use("shout", text="quiet"), "hook")
    assert call["arguments"] == {"text": "QUIET"}
    assert world.effects.count("before_hook") == 1
    assert [effect["text"] for effect in world.effects.details("shout")] == ["QUIET"]


async def test_calls_of_one_turn_run_side_by_side(world: World, client: Client) -> None:
    gate = world.gate("side:before", span=3)
    step = together(*(use("count", name="side") for _ in range(3)))
    run = await client.submit(step, say("done"))
    await gate.reached(holding=3)
    gate.open()
    await client.succeeded(run["id"])
    keys = [effect["key"] for effect in world.effects.details("side")]
    assert sorted(keys) == [f"{run['id']}/1/{index}" for index in range(3)]


@pytest.mark.parametrize(
    ("tool", "arguments", "point"),
    [
        ("doc_read", {"name": "long"}, "doc:before"),
        ("note_tx", {"text": "long"}, "note_tx:before"),
        ("pay_idem", {"ref": "long"}, "pay:before"),
    ],
)
async def test_a_call_tells_how_long_it_took_under_any_policy(
    world: World, client: Client, tool: str, arguments: dict[str, str], point: str
) -> None:
    gate = world.gate(point)
    run = await client.submit(use(tool, **arguments), say("done"))
    await gate.reached()
    await asyncio.sleep(HELD_SECONDS)
    gate.open()
    await client.succeeded(run["id"])
    call = await client.call(run["id"])
    (attempt,) = call["history"]
    assert _seconds(attempt["started_at"], attempt["ended_at"]) >= HELD_SECONDS
    assert _seconds(call["started_at"], call["finished_at"]) >= HELD_SECONDS


def _seconds(start: str, end: str) -> float:
    return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()
