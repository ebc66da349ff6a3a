"""Many trees of runs while their workers are killed at random moments: each ends, nothing twice."""

import asyncio
from collections.abc import Callable

import pytest

from tests.support.client import Client, Json
from tests.support.deployment import Deployment
from tests.support.gates import Gate
from tests.support.polling import in_time
from tests.support.sampling import FULL, Random, dice
from tests.support.scripts import give, say, together, use
from tests.support.world import World

TREES, KILLS = (30, 8) if FULL else (6, 3)
SEEDS = (1, 2) if FULL else (1,)
# The points at which workers are killed, and how often each tree comes there; a payment that is cut
# before it is sent may never be, so only the first half of all counts.
POINTS = [("llm:arrive", 9), ("pay:before", 3), ("pay:after", 3)]
RUNS = 4


def family(mark: str) -> Json:
    """A payment of each kind by children, and one by a grandchild."""
    return dict(
        together(
            give(use("pay_idem", ref=f"{mark} idem"), say("paid")),
            give(
                give(use("pay_once_r", ref=f"{mark} sure"), say("paid")),
                use("pay_once", ref=f"{mark} once"),
                say("paid"),
            ),
        )
    )


def moments(chance: Random) -> list[tuple[str, int]]:
    """At which arrival at which point each blow falls."""
    points = [POINTS[chance.randrange(len(POINTS))] for _ in range(KILLS)]
    return sorted((point, chance.randrange(TREES * each // 2) + 1) for point, each in points)


async def kill_at(gate: Gate, deployment: Deployment, chance: Random) -> None:
    """One of the workers, whoever it is that the gate holds; another one starts."""
    await gate.reached(120)
    deployment.kill9(chance.choice(deployment.workers))
    deployment.launch_worker()
    gate.open()


def paid(world: World, ref: str) -> tuple[int, int]:
    return len(world.payments.calls_for(ref)), len(world.payments.rows_for(ref))


@pytest.mark.timeout(400)
@pytest.mark.parametrize("seed", SEEDS)
async def test_trees_end_whole_whenever_their_workers_are_killed(
    world: World,
    client: Client,
    deployment: Deployment,
    seed: int,
    say_aloud: Callable[[str], None],
) -> None:
    await deployment.start_worker()
    marks = [f"<tree {seed}/{number:02}>" for number in range(TREES)]
    chance = dice(seed)
    blows = moments(chance)
    gates = [world.gate(*blow) for blow in blows]
    killing = [asyncio.create_task(kill_at(gate, deployment, chance)) for gate in gates]
    roots = [(await client.submit(family(mark), say("done"), preface=mark))["id"] for mark in marks]
    await asyncio.gather(*killing)
    await asyncio.gather(*(client.succeeded(root, within=in_time(120)) for root in roots))

    sent = {"idem": 0, "once": 0, "sure": 0}
    for mark, root in zip(marks, roots, strict=True):
        await assert_whole(world, client, root, mark)
        for kind in sent:
            sent[kind] += paid(world, f"{mark} {kind}")[0]
    say_aloud(f"seed {seed}, killed at {blows}: payments sent {sent} for {TREES} each")


async def assert_whole(world: World, client: Client, root: str, mark: str) -> None:
    tree = await client.tree(root)
    assert [member["status"] for member in tree] == ["succeeded"] * RUNS
    for member in tree:
        types = await client.event_types(member["id"])
        assert types.count("run.succeeded") == 1
    calls, rows = paid(world, f"{mark} idem")
    assert (rows, len({each.key for each in world.payments.calls_for(f"{mark} idem")})) == (1, 1)
    for kind in ("once", "sure"):
        calls, rows = paid(world, f"{mark} {kind}")
        state = await state_of(client, tree, f"{mark} {kind}")
        # The provider that can be asked is paid again if a dead worker's payment never came.
        assert (calls if kind == "once" else rows) <= 1, (mark, kind)
        assert state == "outcome_unknown" or (state, rows) == ("succeeded", 1), (mark, kind)


async def state_of(client: Client, tree: list[Json], ref: str) -> str:
    calls = [call for member in tree for call in await client.calls(member["id"])]
    (found,) = [call for call in calls if call["arguments"].get("ref") == ref]
    return str(found["state"])
