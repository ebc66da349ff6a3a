"""A run that kills whatever carries it out ends alone: it takes nobody with it."""

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import psutil
import pytest

from app import Agent
from tests.support.client import Client
from tests.support.deployment import Deployment
from tests.support.gates import Gate
from tests.support.memory import Group, tight_group
from tests.support.polling import eventually, in_time
from tests.support.sampling import FULL
from tests.support.scripts import say, use
from tests.support.world import World

LINUX = sys.platform == "linux"
NEIGHBOURS = 99 if FULL else 12
# Two losses take a run out of the workers, two more there to its end.
IN_WORKERS, ALONE = 2, 2


elsewhere = Agent(name="elsewhere", model="claude-sonnet-5", instructions="Wait.", tools=[])


@asynccontextmanager
async def replaced(deployment: Deployment) -> AsyncIterator[None]:
    replacing = asyncio.create_task(deployment.replace_the_dead())
    try:
        yield
    finally:
        replacing.cancel()
        with suppress(asyncio.CancelledError):
            await replacing


def dead(deployment: Deployment) -> int:
    """Workers that have ended by themselves; the processes that they start do not count."""
    ended = [each for each in deployment.started if each.command == "worker"]
    return len(ended) - len(deployment.workers)


async def isolated(client: Client) -> int:
    """The process id of the only isolated process that lives."""
    workers = (await client.http.get("/v1/workers")).json()["data"]
    (alone,) = [each for each in workers if each["isolated"] and each["lease"] == "held"]
    return int(alone["pid"])


def goes_first(pid: int) -> bool:
    """Where memory runs out; only Linux can be told."""
    return not LINUX or Path(f"/proc/{pid}/oom_score_adj").read_text().strip() == "1000"


async def is_gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


@pytest.mark.timeout(300)
async def test_a_run_that_kills_its_workers_is_buried_and_its_neighbours_live(
    world: World, client: Client, deployment: Deployment
) -> None:
    """They are all in model calls, on two workers; from its third try on it disturbs nobody."""
    gate = world.gate("llm:1", span=10 * NEIGHBOURS)
    third = world.gate("deadly:before", nth=IN_WORKERS + 1)
    await deployment.start_worker()
    names = [f"<neighbour {number}>" for number in range(NEIGHBOURS)]
    neighbours = [
        await client.submit(use("doc_read", name="d"), say("alive"), preface=name) for name in names
    ]
    await gate.reached(in_time(30), holding=NEIGHBOURS)
    async with replaced(deployment):
        poison = await client.submit(use("deadly", deaths=IN_WORKERS + ALONE), say("dead"))
        await third.reached(in_time(60))
        await eventually(lambda: all_held(gate), "the neighbours are at it again", in_time(60))
        asked = gate.arrivals
        third.open()
        ended = await client.ended(poison["id"], within=in_time(60))
        assert (gate.held, gate.arrivals) == (NEIGHBOURS, asked)
        gate.open()
        for run in neighbours:
            await client.succeeded(run["id"], within=in_time(60))

        assert ended["status"] == "dead_letter"
        assert "died" in ended["error"]["detail"]
        assert (await client.call(poison["id"]))["state"] == "outcome_unknown"
        assert world.effects.count("deadly") == IN_WORKERS + ALONE
        assert dead(deployment) == IN_WORKERS
        for name, run in zip(names, neighbours, strict=True):
            assert len(world.model.about(name)) <= 2 + IN_WORKERS
            assert await client.strandings(run["id"]) == []


async def all_held(gate: Gate) -> bool:
    return gate.held == NEIGHBOURS


async def test_a_buried_run_that_is_resumed_may_fail_as_often_again(
    world: World, client: Client, deployment: Deployment
) -> None:
    async with replaced(deployment):
        run = await client.submit(
            use("deadly_read", deaths=IN_WORKERS + ALONE + 1), say("alive after all")
        )
        assert (await client.ended(run["id"], within=90))["status"] == "dead_letter"
        assert (await client.resume(run["id"])).status_code == 202
        await client.succeeded(run["id"], within=60)

        assert world.effects.count("deadly_read") == IN_WORKERS + ALONE + 2
        assert dead(deployment) == IN_WORKERS + 1
        assert world.model.steps() == [0, 1]


@pytest.mark.parametrize("how", ["exit", "abort", "group"] if FULL else ["group"])
async def test_a_run_that_survives_by_itself_goes_on_among_the_others(
    world: World, client: Client, deployment: Deployment, how: str
) -> None:
    async with replaced(deployment):
        steps = use("deadly", deaths=IN_WORKERS + 1, how=how), use("count", name="later"), say("ok")
        run = await client.submit(*steps)
        await client.succeeded(run["id"], within=90)

        assert dead(deployment) == IN_WORKERS
        assert world.effects.count("deadly") == IN_WORKERS + 2
        assert len(await client.strandings(run["id"])) == 1
        alone = await isolated(client)
        assert goes_first(alone)
    deployment.kill9()
    await eventually(lambda: is_gone(alone), "the child went with its worker")


@pytest.fixture
def tight(tmp_path: Path) -> Iterator[Group | None]:
    with tight_group(f"perdure-{tmp_path.name}") as group:
        yield group


@pytest.mark.skipif(not LINUX, reason="only Linux tells what a process takes")
@pytest.mark.parametrize("ended_by", ["the kernel", "a limit"])
async def test_memory_that_runs_out_takes_the_isolated_process_and_not_its_worker(
    tight: Group | None, world: World, client: Client, deployment: Deployment, ended_by: str
) -> None:
    """Both stand in one group when the kernel has to choose.

    The worker stands still meanwhile: one that asks for memory in the milliseconds before the
    kernel has that of the dead process would be next.
    """
    if ended_by == "a limit":
        tight = None
    elif tight is None:
        pytest.skip("no memory group can be made here")
    third = world.gate("deadly:before", nth=IN_WORKERS + 1)
    async with replaced(deployment):
        group = str(tight.path) if tight else ""
        step = use("deadly", deaths=IN_WORKERS + 1, how="memory", group=group)
        run = await client.submit(step, say("alive after all"))
        await third.reached(in_time(30))
        alone = await isolated(client)
        if tight is not None:
            tight.add(deployment.worker.pid)
            deployment.worker.freeze()
        third.open()
        await eventually(lambda: is_gone(alone), "the isolated process has ended", in_time(30))
        deployment.worker.thaw()
        await client.succeeded(run["id"], within=in_time(60))
        assert dead(deployment) == IN_WORKERS
        if tight is not None:
            assert tight.killed == IN_WORKERS + 1


async def test_a_run_whose_agent_the_first_worker_lacks_is_isolated_by_another(
    client: Client, deployment: Deployment
) -> None:
    """The first one is the janitor, too."""
    await deployment.crash(PERDURE_AGENTS=__name__)
    await deployment.start_worker()
    async with replaced(deployment):
        run = await client.submit(use("deadly", deaths=IN_WORKERS + 1), say("alive after all"))
        await client.succeeded(run["id"], within=90)
        assert dead(deployment) == IN_WORKERS + 1  # one of them was killed here
