"""What a session's transcript shows is what the model was sent."""

from typing import Any

import pytest

from tests.support.client import Client
from tests.support.scripts import say, together, use
from tests.support.world import World


def unmarked(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """Without the cache breakpoints of a request."""
    if isinstance(value, dict):
        return {name: unmarked(item) for name, item in value.items() if name != "cache_control"}
    return [unmarked(item) for item in value] if isinstance(value, list) else value


async def transcript(client: Client, session: str) -> list[Any]:
    response = await client.http.get(f"/v1/sessions/{session}/transcript")
    assert response.status_code == 200, response.text
    messages: list[Any] = response.json()["messages"]
    return messages


@pytest.mark.calm
async def test_a_transcript_is_what_the_model_was_sent(world: World, client: Client) -> None:
    first = await client.submit(
        use("pay_idem", ref="a"), together(use("echo", value="é"), use("user_error")), say("Done.")
    )
    await client.succeeded(first["id"])
    second = await client.submit(use("refund", ref="b"), say("Well."), session=first["session"])
    await client.open_wait(second["id"])
    sent = unmarked(world.model.requests[-1].body["messages"])

    parked = await transcript(client, first["session"])
    await client.deny((await client.open_wait(second["id"]))["id"])
    await client.succeeded(second["id"])
    ended = await transcript(client, first["session"])

    assert parked[:-1] == sent
    assert [block["type"] for block in parked[-1]["content"]] == ["tool_use"]
    assert ended[:-1] == unmarked(world.model.requests[-1].body["messages"])
    assert ended[-1] == {"role": "assistant", "content": [{"type": "text", "text": "Well."}]}
