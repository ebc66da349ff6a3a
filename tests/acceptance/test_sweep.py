"""kill -9 at evenly spaced moments, and at every record that a run writes."""

import asyncio
import os
import time

import pytest

from tests.support.client import Client
from tests.support.deployment import Deployment
from tests.support.inspection import notes
from tests.support.sabotage import held_event
from tests.support.scripts import Step, say, use
from tests.support.world import World

FULL = os.environ.get("PERDURE_TEST_FULL") == "1"
MOMENTS = 40 if FULL else 12
EVERY_RECORD = 1 if FULL else 6


def everything(mark: str) -> list[Step]:
    return [
        use("doc_read", name=mark),
        use("pay_idem", ref=f"{mark}-idem"),
        use("pay_once", ref=f"{mark}-once"),
        use("note_tx", text=mark),
        use("refund", ref=f"{mark}-refund"),
        say("done"),
    ]


async def approve_whatever_is_asked(client: Client, run: str) -> None:
    wait = await client.open_wait(run, within=60)
    await client.allow(wait["id"])


@pytest.mark.case("A35")
@pytest.mark.timeout(900 if FULL else 300)
async def test_kill_at_any_moment_repeats_no_effect(
    world: World, client: Client, deployment: Deployment
) -> None:
    whole = await undisturbed_seconds(client)
    for n in range(MOMENTS):
        mark = f"sweep-{n}-of-{MOMENTS}"
        run = (await client.submit(*everything(mark)))["id"]
        approval = asyncio.create_task(approve_whatever_is_asked(client, run))
        await asyncio.sleep(whole * n / MOMENTS)
        await deployment.crash()
        await client.succeeded(run, within=60)
        await approval
        for kind in ("idem", "once", "refund"):
            assert len(world.payments.rows_for(f"{mark}-{kind}")) <= 1, mark
        assert len(world.payments.rows_for(f"{mark}-refund")) == 1, mark
        assert notes(deployment.database_url, run) == [mark]
        assert len(world.model.steps(f"{mark}-idem")) <= 6 + 1, mark
        assert await call_states(client, run) <= {"succeeded", "outcome_unknown"}, mark


async def undisturbed_seconds(client: Client) -> float:
    started = time.monotonic()
    run = (await client.submit(*everything("undisturbed")))["id"]
    await approve_whatever_is_asked(client, run)
    await client.succeeded(run)
    return time.monotonic() - started


async def call_states(client: Client, run: str) -> set[str]:
    return {call["state"] for call in await client.calls(run)}


@pytest.mark.case("B10")
@pytest.mark.timeout(900 if FULL else 300)
@pytest.mark.parametrize("end", ["rolled_back", "committed_late"])
async def test_kill_in_the_commit_of_a_record_changes_nothing(
    world: World, client: Client, deployment: Deployment, end: str
) -> None:
    whole = await client.submit(*six_steps("whole"))
    await client.succeeded(whole["id"])
    last = len(await client.events(whole["id"]))
    for seq in range(2, last + 1, EVERY_RECORD):
        mark = f"record-{seq}-of-{last}"
        with held_event(deployment.database_url, seq) as event:
            run = (await client.submit(*six_steps(mark)))["id"]
            await event.reached()
            deployment.kill9()
            if end == "rolled_back":
                event.roll_back()
            event.release()
        await deployment.start_worker()
        ended = await client.succeeded(run)
        assert ended["output"]["text"] == "all counted", mark
        assert_counted_under_one_key_each(world, mark)
        assert len(world.model.steps(mark)) <= 6 + 1, mark


def six_steps(mark: str) -> list[Step]:
    return [*(use("count", name=f"{mark}-{name}") for name in "abcde"), say("all counted")]


def assert_counted_under_one_key_each(world: World, mark: str) -> None:
    counted = [world.effects.details(f"{mark}-{name}") for name in "abcde"]
    assert [len({effect["key"] for effect in effects}) for effects in counted] == [1] * 5, mark
    assert sum(map(len, counted)) <= 5 + 1, mark
