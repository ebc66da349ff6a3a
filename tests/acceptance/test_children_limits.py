"""What is used below a run is used of its own budget, whatever its children may use themselves."""

import pytest

from tests.support.client import Client, Json
from tests.support.scripts import Step, give, say, together, use, with_usage
from tests.support.world import World

pytestmark = [pytest.mark.calm, pytest.mark.case("A46")]

FREE = {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
# claude-sonnet-5: 2 USD for a million tokens of input, 10 of output.
PRICED = {"input_tokens": 100_000, "output_tokens": 0, **FREE}


async def stopped(client: Client, run: str, reason: str) -> list[Json]:
    """The tree of a run that a limit has stopped together with its last child."""
    root = await client.wait_for(run, "failed")
    assert root["reason"] == reason
    tree = await client.tree(run)
    assert (tree[-1]["status"], tree[-1]["reason"]) == ("failed", reason)
    assert "limit.reached" in await client.event_types(tree[-1]["id"])
    return tree


async def test_turns_of_a_child_are_turns_of_its_parent(world: World, client: Client) -> None:
    steps = [use("count", name=f"turns-{n}") for n in range(4)]
    run = await client.submit(
        give(*steps, say("x")), say("never"), limits={"turns": 4}, preface="<turns> "
    )
    parent, child = await stopped(client, run["id"], "limit_turns")
    assert (parent["turns"], child["turns"]) == (1, 3)
    assert parent["limits_left"] == {"turns": 0}
    assert [world.effects.count(f"turns-{n}") for n in range(4)] == [1, 1, 1, 0]
    assert world.model.steps("<turns> ") == [0]


async def test_tokens_of_a_grandchild_are_tokens_of_all_above_it(
    world: World, client: Client
) -> None:
    def costly(step: Step) -> Step:
        return with_usage(step, input_tokens=400, output_tokens=100, **FREE)

    grandchild = give(costly(use("count", name="tokens")), costly(say("never")))
    run = await client.submit(
        costly(give(costly(grandchild), say("x"))), say("never"), limits={"tokens": 1500}
    )
    tree = await stopped(client, run["id"], "limit_tokens")
    assert [member["turns"] for member in tree] == [1, 1, 1]
    assert [member["reason"] for member in tree] == ["limit_tokens"] * 3
    assert world.effects.count("tokens") == 1


async def test_what_a_child_costs_its_parent_pays(world: World, client: Client) -> None:
    def priced(step: Step) -> Step:
        return with_usage(step, **PRICED)

    run = await client.submit(
        priced(give(priced(use("count", name="cost")), say("x"))),
        say("never"),
        limits={"cost_usd": "0.3"},
    )
    parent, child = await stopped(client, run["id"], "limit_cost")
    assert [member["usage"]["cost_usd"] for member in (parent, child)] == ["0.2000", "0.2000"]
    assert parent["limits_left"]["cost_usd"] == "0.0000"
    assert world.effects.count("cost") == 1


async def test_calls_of_a_child_are_calls_of_its_parent(world: World, client: Client) -> None:
    two = together(use("count", name="calls"), use("count", name="calls"))
    run = await client.submit(
        give(two, two, say("x")), use("count", name="calls"), say("never"), limits={"calls": 4}
    )
    parent, child = await stopped(client, run["id"], "limit_calls")
    assert (parent["turns"], child["turns"]) == (2, 2)
    assert world.effects.count("calls") == 2


async def test_active_time_of_a_child_is_active_time_of_its_parent(client: Client) -> None:
    run = await client.submit(
        give(use("nap", seconds=1.5), say("x")), say("never"), limits={"seconds": 1}
    )
    await stopped(client, run["id"], "limit_seconds")


async def test_a_child_with_a_budget_of_its_own_leaves_the_rest_to_its_parent(
    world: World, client: Client
) -> None:
    run = await client.submit(
        give(use("count", name="own"), say("x"), agent="brief"),
        use("count", name="rest"),
        say("done"),
        limits={"turns": 4},
    )
    parent = await client.succeeded(run["id"])
    assert (parent["turns"], parent["limits_left"]) == (3, {"turns": 0})
    assert [world.effects.count(name) for name in ("own", "rest")] == [1, 1]


async def test_two_children_draw_on_one_budget(world: World, client: Client) -> None:
    steps = [use("count", name="shared") for _ in range(5)]
    run = await client.submit(
        together(give(*steps, say("x")), give(*steps, say("x"))), say("never"), limits={"turns": 7}
    )
    failed = await client.wait_for(run["id"], "failed")
    assert failed["reason"] == "limit_turns"
    children = await client.children(run["id"], 2)
    assert [child["reason"] for child in children] == ["limit_turns"] * 2
    # Both may be within the last turn of the budget at once.
    assert 6 <= sum(child["turns"] for child in children) <= 7
    assert world.effects.count("shared") == sum(child["turns"] for child in children)
