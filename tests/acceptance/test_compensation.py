"""What succeeded is undone in reverse order, by calls of their own."""

import pytest

from tests.support.client import Client
from tests.support.scripts import say, use
from tests.support.world import World

BOOKED = (use("book", name="a"), use("book_once", name="b"), use("book_tx", name="c"))


@pytest.mark.calm
async def test_a_denial_undoes_what_was_done(world: World, client: Client) -> None:
    run = await client.submit(*BOOKED, use("book_asked", name="d"), say("x"), agent="saga")
    await client.deny((await client.open_wait(run["id"]))["id"])
    ended = await client.wait_for(run["id"], "cancelled")
    assert [effect["effect"] for effect in ended["effects"]] == ["compensated"] * 3
    types = await client.event_types(run["id"])
    assert types.count("compensation.succeeded") == 3
