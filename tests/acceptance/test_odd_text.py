"""Text that Postgres or UTF-8 cannot hold goes through every question and every end."""

import pytest

from tests.support.client import Client, Json
from tests.support.scripts import answer, say, script, use
from tests.support.world import World

pytestmark = pytest.mark.calm

# After each of them the audit, which reads the model's answers, must find nothing.
ODD = "a \x00 b \ud800 c"


async def test_a_question_of_odd_characters_is_asked(world: World, client: Client) -> None:
    run = await client.submit(use("ask_user", question="a \x00 b"), say("heard"))
    wait = await client.open_wait(run["id"], kind="input")
    assert wait["question"] == "a \ufffd b"
    answer = await client.resolve(wait["id"], {"text": "yes"})
    assert answer.status_code == 200
    await client.succeeded(run["id"])


async def test_a_last_answer_of_odd_characters_is_an_output(client: Client) -> None:
    run = await client.submit(say(ODD))
    await client.succeeded(run["id"])


@pytest.mark.parametrize("block", [{"type": "text"}, {"type": "text", "text": None}])
async def test_a_last_answer_whose_text_is_none_is_an_output(client: Client, block: Json) -> None:
    run = await client.submit(answer(block, stop_reason="end_turn"))
    ended = await client.succeeded(run["id"])
    assert ended["output"] == {"text": "", "content": [block]}
    later = await client.submit(say("done"), session=run["session"])
    await client.succeeded(later["id"])


async def test_an_answer_of_odd_characters_reaches_the_parent(world: World, client: Client) -> None:
    run = await client.submit(use("delegate", agent="desk", input=script(say(ODD))), say("done"))
    await client.succeeded(run["id"])
    assert "\ufffd" in str(world.model.requests[-1].last_results)


async def test_an_agent_of_odd_characters_is_unknown(world: World, client: Client) -> None:
    run = await client.submit(use("delegate", agent=ODD, input="x"), say("done"))
    await client.succeeded(run["id"])
    assert (await client.call(run["id"]))["state"] == "failed"


@pytest.mark.parametrize(
    "at", ["9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59", "9000-12-31T23:59:59-12:00"]
)
async def test_a_moment_at_the_end_of_time_spoils_no_list(client: Client, at: str) -> None:
    run = await client.submit(use("sleep_until", at=at), say("done"))
    await client.wait_for(run["id"], "waiting", "succeeded")
    assert (await client.http.get("/v1/waits")).status_code == 200
    await client.cancel(run["id"])
