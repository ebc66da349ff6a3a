"""A run draws on the budgets of all above it, and all below it draw on its own."""

from decimal import Decimal
from typing import Any

import pytest

from app.store import turns
from tests.integration.store.family import family, give_birth, line, settle
from tests.integration.store.stage import PRICE, Stage


async def used(stage: Stage, run: str) -> dict[str, Any]:
    query = "select *, perdure.calls_made(%(run)s) as calls from perdure.used(%(run)s)"
    return await stage.one(query, run=run)


async def reached(stage: Stage, run: str) -> object:
    return (await stage.one("select perdure.limit_reached(%(run)s) as limit", run=run))["limit"]


async def limit(stage: Stage, run: str, **limits: Any) -> None:
    for name, value in limits.items():
        await stage.do(
            """update perdure.runs set limits = limits || jsonb_build_object(
               %(name)s::text, %(value)s::text::jsonb) where id = %(run)s""",
            run=run,
            name=name,
            value=f'"{value}"' if isinstance(value, str) else str(value),
        )


async def test_what_is_used_below_counts_above_and_not_beside(stage: Stage) -> None:
    root, middle, leaf = await line(stage, 3)
    fence = await stage.take(leaf)
    await stage.turn(leaf, fence, 1, "pay", "pay")
    beside = await family(stage)

    found = [await used(stage, run) for run in (root, middle, leaf, beside.child)]

    assert [each["turns"] for each in found] == [3, 2, 1, 0]
    assert [each["tokens"] for each in found] == [45, 30, 15, 0]
    assert [each["calls"] for each in found] == [4, 3, 2, 0]
    assert [each["cost_usd"] for each in found] == [PRICE * 3, PRICE * 2, PRICE, Decimal(0)]


async def test_active_time_of_all_below_is_added_up(stage: Stage) -> None:
    root, leaf = await line(stage, 2)
    await stage.take(leaf)
    await stage.do(
        """update perdure.runs set active_seconds = 100, active_since = case when id = %(leaf)s
               then clock_timestamp() - interval '7 s' end
           where id in (%(root)s, %(leaf)s)""",
        root=root,
        leaf=leaf,
    )

    assert 207 <= (await used(stage, root))["seconds"] < 210
    assert 107 <= (await used(stage, leaf))["seconds"] < 110


# What the two runs above a leaf have used so far, and a little more.
USED: list[tuple[str, object, object]] = [
    ("turns", 2, 3),
    ("tokens", 30, 31),
    ("cost_usd", "0.002", "0.0021"),
]


@pytest.mark.parametrize(("name", "used_up", "enough"), USED)
async def test_a_limit_of_the_root_stops_all_below(
    stage: Stage, name: str, used_up: object, enough: object
) -> None:
    root, middle, leaf = await line(stage, 3)
    await limit(stage, root, **{name: enough})
    assert await reached(stage, leaf) is None

    await limit(stage, root, **{name: used_up})

    kind = f"limit_{name.removesuffix('_usd')}"
    assert [await reached(stage, run) for run in (root, middle, leaf)] == [kind] * 3
    assert await stage.begin(leaf, await stage.take(leaf)) == kind


@pytest.mark.parametrize(("name", "used_up"), [("turns", 1), ("tokens", 15), ("cost_usd", "0.001")])
async def test_a_limit_in_the_middle_stops_what_is_below_and_nothing_above(
    stage: Stage, name: str, used_up: object
) -> None:
    root, middle, leaf = await line(stage, 3)

    await limit(stage, middle, **{name: used_up})

    kind = f"limit_{name.removesuffix('_usd')}"
    assert [await reached(stage, run) for run in (root, middle, leaf)] == [None, kind, kind]


async def test_the_time_of_a_run_above_stops_a_child(stage: Stage) -> None:
    root, leaf = await line(stage, 2)
    await limit(stage, root, seconds=60)
    assert await reached(stage, leaf) is None

    await stage.do("update perdure.runs set active_seconds = 60 where id = %(x)s", x=leaf)

    assert await reached(stage, leaf) == "limit_seconds"


async def test_the_deadline_of_a_run_above_stops_a_child(stage: Stage) -> None:
    root, leaf = await line(stage, 2)
    await stage.do(
        "update perdure.runs set deadline = now() - interval '1 s' where id = %(x)s", x=root
    )

    assert await reached(stage, leaf) == "deadline"


async def test_a_limit_of_a_child_does_not_stop_its_parent(stage: Stage) -> None:
    found = await family(stage, limits={"turns": 9})
    await limit(stage, found.child, turns=1)
    fence = await stage.take(found.child)
    await stage.turn(found.child, fence, 1)

    assert await reached(stage, found.child) == "limit_turns"
    assert await reached(stage, found.id) is None


async def test_what_a_child_that_has_ended_used_stays_used(stage: Stage) -> None:
    found = await give_birth(stage, await stage.submit(limits={"turns": 2}))
    fence = await stage.take(found.child)
    await stage.turn(found.child, fence, 1)
    await settle(stage, found.child, fence)

    assert await stage.begin(found.id, found.fence, 2) == "limit_turns"


@pytest.mark.parametrize(("calls", "too_much"), [(4, False), (3, True)])
async def test_calls_of_a_whole_tree_are_counted_against_each_run_above(
    stage: Stage, calls: int, too_much: bool
) -> None:
    root, _, leaf = await line(stage, 3)
    await limit(stage, root, calls=calls)
    fence = await stage.take(leaf)
    await stage.turn(leaf, fence, 1, "pay", "pay")

    assert await turns.asks_too_much(stage.connection, leaf) is too_much
    assert await turns.asks_too_much(stage.connection, root) is too_much


async def test_without_a_limit_no_number_of_calls_is_too_much(stage: Stage) -> None:
    _, leaf = await line(stage, 2)
    await stage.turn(leaf, await stage.take(leaf), 1, *["pay"] * 60)

    assert not await turns.asks_too_much(stage.connection, leaf)
