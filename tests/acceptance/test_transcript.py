"""What the model is sent again is what it said, to the byte, and no more than it needs."""

import hashlib
import json

import pytest

from tests.support.client import Client, Json
from tests.support.deployment import Deployment
from tests.support.inspection import size
from tests.support.scripts import answer, say, together, use
from tests.support.world import World

THINKING = {
    "type": "thinking",
    "thinking": "  two\tspaces,\r\n a NUL \x00, an escape \\u0041, an emoji 🦾, a word: naïve  ",
    "signature": "Q" * 700 + "/+==",
}
REDACTED = {"type": "redacted_thinking", "data": "c2VjcmV0" * 200 + "=="}
TEXT = {"type": "text", "text": "I look.\u2028\n\n", "future_field": {"kept": [1, 2.50, None]}}
LOOK = {
    "type": "tool_use",
    "id": "toolu_b31",
    "name": "count",
    "input": {"name": "b31"},
    "caller": {"type": "direct"},
}
LITERAL = "\\u0000 and \\ud800"


@pytest.mark.case("B31")
async def test_kill_keeps_the_models_own_blocks_as_they_came(
    world: World, client: Client, deployment: Deployment
) -> None:
    blocks: list[Json] = [THINKING, REDACTED, TEXT, LOOK]
    gate = world.gate("b31:after")
    run = await client.submit(answer(*blocks, stop_reason="tool_use"), say("done"))
    await gate.reached()
    await deployment.crash()
    await client.succeeded(run["id"])
    assert world.model.statuses() == [200, 200]
    sent = world.model.requests[-1].last_answer
    assert [json.dumps(block) for block in sent] == [json.dumps(block) for block in blocks]
    turn, _ = await client.turns(run["id"])
    assert turn["content"] == blocks


@pytest.mark.case("B30")
async def test_a_restart_changes_nothing_in_a_finished_transcript(
    client: Client, deployment: Deployment
) -> None:
    run = await client.submit(
        together(*(use("echo", value={"n": n, "text": f"é{n}\u2028"}) for n in range(3))),
        use("nul"),
        use("big", size=2000),
        say("done"),
    )
    await client.succeeded(run["id"])
    before = [await client.raw(f"/v1/runs/{run['id']}/{part}") for part in ("turns", "calls")]
    await deployment.restart()
    after = [await client.raw(f"/v1/runs/{run['id']}/{part}") for part in ("turns", "calls")]
    assert after == before
    assert all(call["state"] == "succeeded" for call in await client.calls(run["id"]))


@pytest.mark.case("B48")
@pytest.mark.calm
async def test_characters_that_postgres_refuses_end_no_run(world: World, client: Client) -> None:
    text = f"a NUL \x00, a literal {LITERAL}"
    run = await client.submit(
        {**use("nul"), "text": text},
        use("echo", value={"nul": "x\x00y", "literal": LITERAL}),
        say(text),
        preface=f"please keep {LITERAL}: ",
    )
    ended = await client.succeeded(run["id"])
    assert LITERAL in ended["input"]
    assert LITERAL in ended["output"]["text"]
    assert world.model.statuses("please keep") == [200] * 3
    nul, echo = await client.calls(run["id"])
    assert nul["result"]["literal"] == "\\u0000"
    assert echo["result"]["literal"] == LITERAL
    last = world.model.about("please keep")[-1]
    assert LITERAL in last.texts[0]
    assert json.dumps("\\u0000") in last.texts[1]


@pytest.mark.case("B64")
@pytest.mark.timeout(300)
async def test_a_long_run_is_stored_once_and_not_once_per_call(
    world: World, client: Client, deployment: Deployment
) -> None:
    calls, chat = 100, noise(seed=0, length=400_000)
    for n in range(calls):
        world.documents.write(f"d{n}", noise(seed=n + 1, length=5_000))
    before = size(deployment.database_url)
    steps = [use("doc_read", name=f"d{n}") for n in range(calls)]
    run = await client.submit(*steps, say("done"), preface=chat)
    await client.succeeded(run["id"], within=200)
    grown = size(deployment.database_url) - before
    new = len(run["input"]) + calls * 5_000
    assert grown <= 3 * new, f"{grown} bytes for {new}"
    assert world.model.steps() == list(range(calls + 1))


def noise(seed: int, length: int) -> str:
    """Text that no compression makes small."""
    pieces = (hashlib.sha256(f"{seed}-{n}".encode()).hexdigest() for n in range(length // 64 + 1))
    return "".join(pieces)[:length]


@pytest.mark.calm
async def test_calls_with_one_provider_id_in_two_turns_keep_their_own_results(
    world: World, client: Client
) -> None:
    def look(value: str) -> dict[str, object]:
        return {"calls": [{"tool": "echo", "args": {"value": value}, "id": "toolu_again"}]}

    run = await client.submit(look("first"), look("second"), say("done"))
    await client.succeeded(run["id"])
    assert [call["result"] for call in await client.calls(run["id"])] == ["first", "second"]
    results = [request.last_results for request in world.model.about("toolu_again")[1:]]
    assert "first" in str(results[0])
    assert "second" in str(results[1])
    assert world.model.statuses("toolu_again") == [200] * 3


@pytest.mark.case("B33")
async def test_a_run_keeps_the_model_settings_it_began_with_or_fails_once(
    world: World, client: Client, deployment: Deployment
) -> None:
    run = await client.submit(use("refund", ref="b33"), say("done"), agent="changing")
    wait = await client.open_wait(run["id"])
    deployment.kill9()
    await deployment.start_worker(
        CHANGING_MODEL="claude-opus-5",
        CHANGING_THINKING=json.dumps({"type": "enabled", "budget_tokens": 2048}),
    )
    await client.allow(wait["id"])
    ended = await client.ended(run["id"])
    assert world.model.statuses().count(400) <= 1
    if ended["status"] == "succeeded":
        settings = [(r.body["model"], r.body.get("thinking")) for r in world.model.requests]
        assert settings == [("claude-sonnet-5", None)] * 2
    else:
        assert (ended["status"], bool(ended["error"]["detail"])) == ("failed", True)


@pytest.mark.case("A52")
@pytest.mark.calm
async def test_each_turn_tells_which_prompt_tools_and_model_it_used(client: Client) -> None:
    run = await client.submit(use("count", name="a"), say("done"))
    await client.succeeded(run["id"])
    first, second = await client.turns(run["id"])
    for name in ("prompt_hash", "tools_hash", "model"):
        assert first[name]
        assert first[name] == second[name]
    other = await client.submit(say("done"), agent="reader")
    await client.succeeded(other["id"])
    (third,) = await client.turns(other["id"])
    assert third["tools_hash"] != first["tools_hash"]
    assert third["model"] == first["model"] == "claude-sonnet-5"


@pytest.mark.calm
async def test_a_stable_prefix_is_marked_for_the_cache(world: World, client: Client) -> None:
    run = await client.submit(use("count", name="a"), say("done"), preface="<cached> ")
    ended = await client.succeeded(run["id"])
    requests = world.model.about("<cached>")
    assert all("cache_control" in request.raw.decode() for request in requests)
    assert ended["usage"]["cache_read_tokens"] > 0
    first, second = (request.body for request in requests)
    assert (first["system"], first["tools"]) == (second["system"], second["tools"])
