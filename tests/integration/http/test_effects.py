import json

import httpx
import pytest

from tests.integration.http.questions import DONE
from tests.integration.http.rows import Rows
from tests.integration.http.test_runs import get


@pytest.mark.parametrize(
    ("state", "replay", "effect"),
    [
        ("succeeded", "at_most_once", "confirmed"),
        ("failed", "at_most_once", "absent"),
        ("started", "idempotent", "unknown"),
        ("outcome_unknown", "at_most_once", "unknown"),
        ("cancelled", "read_only", "absent"),
        ("cancelled", "transactional", "absent"),
        ("cancelled", "idempotent", "unknown"),
        ("cancelled", "at_most_once", "unknown"),
        ("ready", "transactional", "absent"),
        ("ready", "idempotent", "unknown"),
    ],
)
async def test_every_call_that_started_tells_its_effect(
    http: httpx.AsyncClient, rows: Rows, state: str, replay: str, effect: str
) -> None:
    run = await rows.run(status="running")
    call = await rows.call(run, state=state, replay=replay, **DONE)
    await rows.call(run, index=1, state="denied", finished_at="2020-01-01")

    shown = await get(http, f"/v1/runs/{run}")

    assert shown["effects"] == [{"call": call, "tool": "pay", "effect": effect}]


@pytest.mark.parametrize(
    ("outcomes", "effect"),
    [
        (["did_not_happen"], "absent"),
        (["not_called", "did_not_happen"], "absent"),
        (["raised", "did_not_happen"], "unknown"),
        (["did_not_happen", None], "unknown"),
        (["interrupted"], "unknown"),
    ],
)
async def test_what_is_known_not_to_have_happened_is_no_unknown_effect(
    http: httpx.AsyncClient, rows: Rows, outcomes: list[str | None], effect: str
) -> None:
    run = await rows.run(status="cancelling")
    history = json.dumps([{"outcome": outcome} for outcome in outcomes])
    await rows.call(run, state="cancelled", replay="at_most_once", history=history, **DONE)

    (shown,) = (await get(http, f"/v1/runs/{run}"))["effects"]

    assert shown["effect"] == effect


@pytest.mark.parametrize(
    ("state", "replay", "effect"),
    [
        ("succeeded", "at_most_once", "compensated"),
        ("failed", "at_most_once", "confirmed"),
        ("outcome_unknown", "at_most_once", "unknown"),
        ("started", "idempotent", "unknown"),
        ("ready", "idempotent", "unknown"),
        ("ready", "transactional", "confirmed"),
        ("cancelled", "transactional", "confirmed"),
    ],
)
async def test_an_undo_is_told_with_the_call_that_it_undoes(
    http: httpx.AsyncClient, rows: Rows, state: str, replay: str, effect: str
) -> None:
    run = await rows.run(status="cancelling")
    call = await rows.call(run, state="succeeded", replay=replay, **DONE)
    undo = await rows.call(run, 2, compensates=call, state=state, replay=replay, **DONE)

    shown = await get(http, f"/v1/runs/{run}")

    assert shown["effects"] == [{"call": call, "tool": "pay", "effect": effect}]
    calls = (await get(http, f"/v1/runs/{run}/calls"))["data"]
    assert [(each["id"], each["compensates"]) for each in calls] == [(call, None), (undo, call)]


async def test_an_undo_that_has_not_begun_changes_nothing(
    http: httpx.AsyncClient, rows: Rows
) -> None:
    run = await rows.run(status="cancelling")
    call = await rows.call(run, state="succeeded", replay="idempotent", **DONE)
    await rows.call(run, 2, compensates=call, state="ready", replay="idempotent")

    (effect,) = (await get(http, f"/v1/runs/{run}"))["effects"]

    assert effect["effect"] == "confirmed"


async def test_each_effect_is_told_once_by_the_run_that_had_it(
    http: httpx.AsyncClient, rows: Rows
) -> None:
    top = await rows.run(status="running")
    delegating = await rows.call(top, tool="delegate", state="waiting", replay="transactional")
    await rows.execute("update perdure.calls set started_at = now() where id = %s", delegating)
    child = await rows.run(parent=top, root=top, delegated_by=delegating)
    done = await rows.call(child, state="succeeded", replay="idempotent", **DONE)
    fork = await rows.run(forked_from=child)
    await rows.call(fork, state="succeeded", replay="idempotent", origin=child, **DONE)

    async def effects(run: str) -> list[str]:
        return [effect["call"] for effect in (await get(http, f"/v1/runs/{run}"))["effects"]]

    assert (await effects(top), await effects(child), await effects(fork)) == ([], [done], [])
    assert (await get(http, f"/v1/runs/{top}"))["children"] == [child]
    assert (await get(http, f"/v1/runs/{fork}"))["forked_from"] == child
