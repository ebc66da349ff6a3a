"""What the model's provider can do to a run, and how often it is asked."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.acceptance.conftest import deployed
from tests.support.client import Client
from tests.support.database import Cluster
from tests.support.deployment import Deployment
from tests.support.scripts import answer, by_attempt, cut, refuse, say, use
from tests.support.world import World

ATTEMPTS = 3
HALF_A_CALL = {
    "type": "tool_use",
    "id": "toolu_half",
    "name": "pay_once",
    "input": {},
    "partial_json": '{"ref": "b34", "amou',
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def patient(
    cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Deployment]:
    """A service that asks the model three times at most."""
    logs = tmp_path_factory.mktemp("logs")
    async with deployed(cluster, logs, PERDURE_MODEL_ATTEMPTS=str(ATTEMPTS)) as deployment:
        yield deployment


@pytest.fixture
def deployment(patient: Deployment) -> Deployment:
    return patient


@pytest.mark.case("A27")
async def test_a_busy_model_is_asked_again(world: World, client: Client) -> None:
    busy = refuse(429, retry_after=0)
    run = await client.submit(by_attempt(busy, busy, say("done")), preface="<busy> ")
    await client.succeeded(run["id"], within=60)
    assert world.model.statuses("<busy>") == [429, 429, 200]


@pytest.mark.case("A27", "B33")
@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
async def test_a_refusal_that_would_repeat_is_not_repeated(
    world: World, client: Client, status: int
) -> None:
    mark = f"<refused {status}>"
    run = await client.submit(refuse(status), preface=mark)
    failed = await client.wait_for(run["id"], "failed")
    assert failed["reason"] == "model_error"
    assert failed["error"]["detail"]
    assert world.model.statuses(mark) == [status]


@pytest.mark.case("B61")
@pytest.mark.parametrize("status", [500, 529])
async def test_a_broken_model_is_asked_as_often_as_configured(
    world: World, client: Client, status: int
) -> None:
    mark = f"<broken {status}>"
    run = await client.submit(refuse(status, retry_after=0), preface=mark)
    failed = await client.wait_for(run["id"], "failed", within=90)
    assert failed["reason"] == "model_error"
    assert world.model.statuses(mark) == [status] * ATTEMPTS


@pytest.mark.parametrize("place", ["after_start", "mid_text", "before_stop"])
async def test_a_cut_stream_leaves_nothing_behind(world: World, client: Client, place: str) -> None:
    mark = f"<cut {place}>"
    run = await client.submit(by_attempt(cut(place), say("whole")), preface=mark)
    ended = await client.succeeded(run["id"], within=60)
    assert ended["output"]["text"] == "whole"
    assert len(world.model.about(mark)) == 2
    assert ended["usage"]["repaid_model_calls"] == 1
    (turn,) = await client.turns(run["id"])
    assert turn["content"] == [{"type": "text", "text": "whole"}]


async def test_an_overload_in_mid_stream_is_asked_again(world: World, client: Client) -> None:
    overloaded = {"error": "overloaded_error"}
    run = await client.submit(by_attempt(overloaded, say("done")), preface="<overload>")
    await client.succeeded(run["id"], within=60)
    assert len(world.model.about("<overload>")) == 2


async def test_no_request_comes_before_the_time_the_model_named(
    world: World, client: Client
) -> None:
    run = await client.submit(
        by_attempt(refuse(429, retry_after=2), say("done")), preface="<later>"
    )
    await client.succeeded(run["id"], within=60)
    first, second = world.model.about("<later>")
    assert second.arrived_at - first.arrived_at >= 2


@pytest.mark.case("B34")
async def test_a_call_cut_by_max_tokens_is_not_run(world: World, client: Client) -> None:
    half = answer(HALF_A_CALL, stop_reason="max_tokens")
    run = await client.submit(half, half, half, half, say("done"), preface="<half>")
    await client.ended(run["id"], within=60)
    assert world.payments.calls_for("b34") == []
    assert len(world.model.about("<half>")) <= 4
    assert 400 not in world.model.statuses("<half>")


@pytest.mark.parametrize(
    ("stop_reason", "reason"),
    [
        ("refusal", "model_refusal"),
        ("max_tokens", "max_tokens"),
        ("model_context_window_exceeded", "context_window"),
        ("brand_new_reason", "unknown_stop_reason"),
    ],
)
async def test_only_a_proper_ending_is_a_success(
    client: Client, stop_reason: str, reason: str
) -> None:
    text = {"type": "text", "text": "so far"}
    run = await client.submit(*[answer(text, stop_reason=stop_reason)] * 9)
    failed = await client.wait_for(run["id"], "failed", within=60)
    assert failed["reason"] == reason


async def test_a_paused_turn_goes_on(world: World, client: Client) -> None:
    paused = answer({"type": "text", "text": "thinking on"}, stop_reason="pause_turn")
    run = await client.submit(paused, say("done"), preface="<pause>")
    ended = await client.succeeded(run["id"])
    assert ended["output"]["text"].endswith("done")
    assert world.model.statuses("<pause>") == [200, 200]


@pytest.mark.case("B61")
async def test_attempts_are_counted_for_each_step(world: World, client: Client) -> None:
    flaky = by_attempt(refuse(500, retry_after=0), use("count", name="n"))
    run = await client.submit(
        flaky, by_attempt(refuse(500, retry_after=0), say("done")), preface="<each>"
    )
    await client.succeeded(run["id"], within=60)
    assert world.model.statuses("<each>") == [500, 200, 500, 200]
