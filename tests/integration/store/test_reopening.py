"""Resume: a run that was stopped goes on from where it was, or says why not."""

import asyncio
from typing import Any, TypeVar

import pytest
import pytest_asyncio

from app.domain.canonical import encode
from app.domain.ids import new_message_id, new_session_id
from app.errors import NotFound, NotResumable, PerdureError, RunEnded, TargetBusy
from app.services import restarts
from app.services.context import Caller, Services
from app.services.runs import submit
from app.store import messages
from app.store.db import rows
from tests.integration.store.family import family, paid, register, settle
from tests.integration.store.gating import SESSION, one_behind_the_other
from tests.integration.store.stage import Stage
from tests.integration.store.test_submission import submission

ANN = Caller("ann")
Refusal = TypeVar("Refusal", bound=PerdureError)
BROKE = {"type": "x", "detail": "y"}

pytestmark = pytest.mark.usefixtures("audited")


@pytest_asyncio.fixture(autouse=True)
async def _agent(stage: Stage) -> None:
    await register(stage, "desk")
    await register(stage, "undoing")


async def stopped(stage: Stage, reason: str = "limit_turns", **values: Any) -> str:
    """A run that a limit, or whatever else, has ended after its first turn."""
    run = await stage.submit(**values)
    fence = await stage.take(run)
    await paid(stage, run, fence, 1, "pay")
    status = "dead_letter" if reason == "internal" else "failed"
    assert await stage.end(run, fence, status, reason=reason, error=BROKE) == "ended"
    return run


async def resume(services: Services, run: str, **limits: Any) -> None:
    await restarts.resume(services, run, limits, ANN)


@pytest.mark.parametrize(
    "reason",
    [
        *("limit_turns", "limit_tokens", "limit_cost", "limit_seconds", "limit_calls"),
        *("model_error", "internal"),
    ],
)
async def test_a_stopped_run_goes_on_with_its_next_leg(
    stage: Stage, services: Services, reason: str
) -> None:
    run = await stopped(stage, reason)
    await stage.do(
        "update perdure.runs set breaches = 2, model_failures = 5 where id = %(run)s", run=run
    )

    await resume(services, run, turns=60)

    found = await stage.run(run)
    assert (found["status"], found["leg"], await stage.legs(run)) == ("queued", 2, [2])
    assert [found[name] for name in ("finished_at", "error", "reason", "output")] == [None] * 4
    assert (found["breaches"], found["model_failures"]) == (0, 0)
    assert found["limits"]["turns"] == 60
    event = await stage.one(
        "select data from perdure.events where run = %(run)s and type = 'run.resumed'", run=run
    )
    assert (event["data"]["reopened"], event["data"]["by"]) == (True, "ann")
    assert event["data"]["limits"]["turns"] == 60


async def test_what_is_finished_is_not_repeated(stage: Stage, services: Services) -> None:
    run = await stopped(stage)
    await resume(services, run)

    fence = await stage.take(run)

    assert (await stage.run(run))["turns"] == 1
    assert await stage.begin(run, fence, 1) == "answered"
    assert await stage.begin(run, fence, 2) == "call"


async def test_a_resumed_run_ends_once_more(stage: Stage, services: Services) -> None:
    run = await stopped(stage)
    await resume(services, run)

    assert await stage.end(run, await stage.take(run), "succeeded") == "ended"

    told = await stage.told(run)
    assert [each for each in told if each in ("run.failed", "run.succeeded")] == [
        "run.failed",
        "run.succeeded",
    ]


UNFIT = [
    *("model_refusal", "max_tokens", "context_window", "unknown_stop_reason"),
    *("deadline", "tool_missing", "output_invalid"),
]


@pytest.mark.parametrize("reason", UNFIT)
async def test_a_run_that_failed_of_itself_is_not_resumed(
    stage: Stage, services: Services, reason: str
) -> None:
    await is_refused(stage, services, await stopped(stage, reason), NotResumable)


async def is_refused(
    stage: Stage, services: Services, run: str, why: type[Refusal], **limits: Any
) -> Refusal:
    """And nothing has changed."""
    before, told = await stage.run(run), await stage.told(run)
    with pytest.raises(why) as refused:
        await resume(services, run, **limits)
    assert (await stage.run(run), await stage.told(run)) == (before, told)
    return refused.value


@pytest.mark.parametrize("status", ["succeeded", "cancelled"])
async def test_a_run_that_ended_well_or_by_order_is_not_resumed(
    stage: Stage, services: Services, status: str
) -> None:
    run = await stage.submit()
    fence = await stage.take(run)
    if status == "cancelled":
        await stage.cancel(run, fence)
    else:
        await stage.end(run, fence, status)

    await is_refused(stage, services, run, NotResumable)


async def test_a_run_that_has_not_ended_is_not_resumed(stage: Stage, services: Services) -> None:
    run = await stage.submit()
    await stage.journal(run, "ENQUEUED")

    await is_refused(stage, services, run, NotResumable)


async def test_a_run_that_never_was_is_not_found(services: Services) -> None:
    with pytest.raises(NotFound):
        await resume(services, "run_nobody")


async def test_a_child_whose_parent_has_its_result_is_not_resumed(
    stage: Stage, services: Services
) -> None:
    found = await family(stage)
    fence = await stage.take(found.child)
    await settle(stage, found.child, fence, "failed", reason="limit_turns", error=BROKE)
    await stage.journal(found.id, "ENQUEUED")

    await is_refused(stage, services, found.child, RunEnded)


@pytest.mark.parametrize("shared", ["session", "target"])
@pytest.mark.parametrize("held", [False, True])
async def test_a_run_whose_work_another_run_has_taken_up_is_not_resumed(
    stage: Stage, services: Services, shared: str, held: bool
) -> None:
    work: dict[str, Any] = {"session": new_session_id(), "target": new_session_id()}
    run = await stopped(stage, **work)
    other = await stage.submit(**{shared: work[shared]})
    await stage.journal(other, "ENQUEUED")
    if held:
        await stage.submit(held=True, **{shared: work[shared]})

    await is_refused(stage, services, run, TargetBusy)


USED_UP: list[tuple[str, dict[str, Any], str]] = [
    ("turns", {"turns": 1}, "turns"),
    ("tokens", {"tokens": 15}, "tokens"),
    ("cost", {"cost_usd": "0.001"}, "cost_usd"),
    ("seconds", {"seconds": 0.000001}, "seconds"),
]


@pytest.mark.parametrize(("reason", "limits", "field"), USED_UP)
async def test_a_limit_that_is_still_used_up_is_named(
    stage: Stage, services: Services, reason: str, limits: dict[str, Any], field: str
) -> None:
    run = await stopped(stage, f"limit_{reason}")
    await stage.do(
        "update perdure.runs set limits = limits || %(limits)s::jsonb where id = %(run)s",
        run=run,
        limits=encode(limits),
    )

    refused = await is_refused(stage, services, run, NotResumable)
    assert f"{field!r}" in refused.detail
    await is_refused(stage, services, run, NotResumable, **limits)
    raised = {name: None if name != "turns" else 9 for name in limits}
    await resume(services, run, **raised)
    assert (await stage.run(run))["status"] == "queued"


async def test_a_limit_of_calls_that_is_still_used_up_is_named(
    stage: Stage, services: Services
) -> None:
    run, fence, _ = await stage.calling("pay", "pay", limits={"calls": 1})
    await stage.end(run, fence, "failed", reason="limit_calls", error=BROKE)

    refused = await is_refused(stage, services, run, NotResumable)
    assert "'calls'" in refused.detail
    await resume(services, run, calls=2)
    assert (await stage.call(f"call_{run[4:]}_1_1"))["state"] == "proposed"


async def test_a_run_that_is_too_late_is_not_resumed(stage: Stage, services: Services) -> None:
    run = await stopped(stage)
    await stage.do(
        "update perdure.runs set deadline = now() - interval '1 s' where id = %(run)s", run=run
    )

    await is_refused(stage, services, run, NotResumable)


async def test_messages_that_it_did_not_live_to_see_are_heard_after_all(
    stage: Stage, services: Services
) -> None:
    run = await stage.submit()
    fence = await stage.take(run)
    for text in ("one", "two"):
        await messages.insert(stage.connection, new_message_id(), run, text)
    await stage.end(run, fence, "failed", reason="limit_turns")
    await resume(services, run)

    fence = await stage.take(run)
    await stage.begin(run, fence)
    await stage.answer(run, fence, 1)

    query = "select text, state, turn from perdure.messages where run = %(run)s order by place"
    heard = await rows(stage.connection, query, run=run)
    assert [tuple(each.values()) for each in heard] == [
        ("one", "delivered", 1),
        ("two", "delivered", 1),
    ]


async def test_of_two_that_resume_at_once_one_does(stage: Stage, services: Services) -> None:
    run = await stopped(stage)

    answers = await asyncio.gather(
        *(resume(services, run) for _ in range(2)), return_exceptions=True
    )

    assert sorted(type(each).__name__ for each in answers) == ["NoneType", "NotResumable"]
    assert await stage.legs(run) == [2]


@pytest.mark.parametrize("order", ["resume first", "submit first"])
async def test_a_resumed_run_and_a_new_one_do_not_work_on_one_thing(
    stage: Stage, gate: Stage, services: Services, order: str
) -> None:
    session = new_session_id()
    run = await stopped(stage, session=session)
    asked = submission(session=session)

    async def go_on() -> None:
        await resume(services, run)

    async def begin() -> str:
        return (await submit(services, asked, ANN, None, "f")).run

    first, second = (go_on, begin) if order == "resume first" else (begin, go_on)
    told = await one_behind_the_other(gate, session, first, second, lock=SESSION)

    if order == "resume first":
        assert told[0] is None
        assert (await stage.run(told[1]))["held"]
    else:
        assert isinstance(told[1], TargetBusy)
        assert (await stage.run(run))["status"] == "failed"
