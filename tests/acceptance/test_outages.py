"""Trouble with the database: every run ends well without a hand, soon after it is over."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio

from tests.support.client import Client
from tests.support.deployment import Deployment
from tests.support.inspection import legs_of, notes
from tests.support.polling import eventually, in_time
from tests.support.sampling import FULL
from tests.support.scripts import say, script, use
from tests.support.trouble import TROUBLES, away, end_listeners
from tests.support.troubled import GRACE_SECONDS, Services, Troubled
from tests.support.world import World

# From the database's return to the next step of every run.
BACK_OFF_SECONDS = 5.0
TAKEN = 50
BUSY, TURNS = (4, 25) if FULL else (2, 10)
PLACES = [("embedded", "socket"), ("debian", "tcp")]
SAMPLE = {
    "socket": [("restart", 0), ("outage", 3), ("crowd", 2)],
    "tcp": [("outage", 3), ("dns", 3), ("read_only", 3), ("disk_full", 3)],
}
if FULL:
    PLACES = [(server, link) for server in ("embedded", "debian") for link in ("socket", "tcp")]
    LONG = [("outage", 10), ("outage", 60), ("crowd", 10), ("read_only", 20), ("disk_full", 20)]
    SAMPLE = {"socket": [("restart", 0), *LONG], "tcp": [("restart", 0), *LONG, ("dns", 20)]}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def services(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Services]:
    services = Services(tmp_path_factory.mktemp("outages"))
    yield services
    services.close()


CASES = [
    (server, link, trouble, seconds) for server, link in PLACES for trouble, seconds in SAMPLE[link]
]


@pytest_asyncio.fixture(params=["embedded-socket"])
async def troubled(services: Services, request: pytest.FixtureRequest) -> Troubled:
    server, link = request.param.split("-")
    return await services.get(server, link)


@pytest.fixture
def deployment(troubled: Troubled) -> Deployment:
    return troubled.deployment


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("troubled", "trouble", "seconds"),
    [(f"{server}-{link}", trouble, seconds) for server, link, trouble, seconds in CASES],
    indirect=["troubled"],
)
async def test_runs_of_every_policy_go_on_when_the_database_is_back(
    troubled: Troubled,
    world: World,
    client: Client,
    trouble: str,
    seconds: int,
    say_aloud: Callable[[str], None],
) -> None:
    mark = f"{troubled.name}-{trouble}-{seconds}"
    runs = await begin(client, world, mark)
    busy = await keep_busy(client, world, mark)
    with TROUBLES[trouble](troubled.place):
        world.gates.open_all()
        if trouble != "restart":
            await refused(client)
        await asyncio.sleep(seconds)
    back = time.monotonic()
    runs["new"] = await accepted(client, f"<{mark} new>")
    for name, run in (runs | busy).items():
        ended = await client.succeeded(run, within=in_time(60))
        assert ended["usage"]["repaid_model_calls"] == 0, name
    assert_nothing_was_repeated(world, troubled, mark, runs)
    for name in busy:
        assert_counted_once_each(world, mark, name)
    late = {name: next_request(world, f"<{mark} {name}>", back) - back for name in runs | busy}
    say_aloud(f"{mark}: the next step of each run after {told(late)}")
    assert max(late.values()) <= in_time(BACK_OFF_SECONDS), late


async def begin(client: Client, world: World, mark: str) -> dict[str, str]:
    """Runs held in the model call, and in tools of every policy before or after their effect."""
    model, reading = world.gate("llm:0"), world.gate("doc:before")
    before, after = world.gate("pay:before", span=2), world.gate("pay:after", span=2)
    noting = world.gate("note_tx:after")
    steps = {
        "model": use("pay_idem", ref=f"{mark}-model"),
        "idempotent-before": use("pay_idem", ref=f"{mark}-idem-b"),
        "once-before": use("pay_once", ref=f"{mark}-once-b"),
        "idempotent-after": use("pay_idem", ref=f"{mark}-idem-a"),
        "once-after": use("pay_once", ref=f"{mark}-once-a"),
        "transactional": use("note_tx", text=mark),
        "read_only": use("doc_read", name=mark),
    }
    held = {"model": model, "once-before": before}
    runs = {}
    for name, step in steps.items():
        run = await client.submit(step, say("done"), preface=f"<{mark} {name}>")
        runs[name] = run["id"]
        if name in held:
            await held[name].reached(holding=2 if name == "once-before" else 1)
    for gate, count in ((after, 2), (noting, 1), (reading, 1)):
        await gate.reached(holding=count)
    return runs


def assert_nothing_was_repeated(
    world: World, troubled: Troubled, mark: str, runs: dict[str, str]
) -> None:
    for ref in ("model", "idem-b", "once-b", "idem-a", "once-a"):
        assert len(world.payments.rows_for(f"{mark}-{ref}")) == 1, ref
    for ref in ("once-b", "once-a"):
        assert len([call for call in world.payments.calls if call.ref == f"{mark}-{ref}"]) == 1
    assert notes(troubled.place.url, runs["transactional"]) == [mark]
    for name in runs.keys() - {"new"}:
        assert world.model.steps(f"<{mark} {name}>") == [0, 1], name


async def keep_busy(client: Client, world: World, mark: str) -> dict[str, str]:
    """Runs that are anywhere: in the journal, in the ledger, between the two."""
    runs = {}
    for n in range(BUSY):
        name = f"busy-{n}"
        steps = [use("count", name=f"{mark}-{name}")] * TURNS
        made = await client.submit(*steps, say("done"), preface=f"<{mark} {name}>")
        runs[name] = made["id"]

    async def probe() -> bool:
        return all(len(world.model.about(f"<{mark} {name}>")) > 2 for name in runs)

    await eventually(probe, "all runs were under way")
    return runs


def assert_counted_once_each(world: World, mark: str, name: str) -> None:
    counted = world.effects.details(f"{mark}-{name}")
    assert len({effect["key"] for effect in counted}) == len(counted) == TURNS
    assert sorted(world.model.steps(f"<{mark} {name}>")) == list(range(TURNS + 1))


def next_request(world: World, mark: str, after: float) -> float:
    """When the model next heard of a run; no later than the end of the trouble if it did before."""
    arrived = [request.arrived_at for request in world.model.about(mark)]
    return next((at for at in arrived if at > after), after)


def told(late: dict[str, float]) -> str:
    return ", ".join(f"{seconds:.1f} s ({name})" for name, seconds in late.items())


async def refused(client: Client) -> None:
    """The API takes nothing on that it cannot keep, and says when to come back."""
    answer = await client.post_run({"agent": "desk", "input": "Hello."})
    assert (answer.status_code, answer.json()["type"]) == (503, "/problems/database-unavailable")
    assert int(answer.headers["retry-after"]) >= 1


async def accepted(client: Client, mark: str) -> str:
    """A new run, as soon as one is taken on again."""
    body = {"agent": "desk", "input": script(say("alive"), preface=mark)}

    async def probe() -> str | None:
        answer = await client.post_run(body)
        return str(answer.json()["id"]) if answer.status_code == 202 else None

    return await eventually(probe, "a run was accepted", in_time(BACK_OFF_SECONDS))


@pytest.mark.parametrize("doing", ["at_work", "idle", "starting"])
async def test_a_worker_told_to_stop_while_the_database_is_away_ends_in_time(
    troubled: Troubled,
    world: World,
    client: Client,
    deployment: Deployment,
    doing: str,
    say_aloud: Callable[[str], None],
) -> None:
    run = None
    if doing == "starting":
        await deployment.crash()
    if doing == "at_work":
        gate = world.gate("pay:before")
        run = await client.submit(use("pay_idem", ref="leaving"), say("paid"))
        await gate.reached()
    with away(troubled.place):
        told_at = time.monotonic()
        assert await deployment.terminate() == 0
        took = time.monotonic() - told_at
    say_aloud(f"stopped while the database was away: {took:.1f} s, grace {GRACE_SECONDS} s")
    assert took <= in_time(GRACE_SECONDS + 4.0)
    await deployment.start_worker()
    if run is not None:
        await client.succeeded(run["id"])
        assert len(world.payments.rows_for("leaving")) == 1


@pytest.mark.case("B46")
async def test_a_decision_is_heard_although_every_listener_was_cut_off(
    troubled: Troubled, world: World, client: Client
) -> None:
    run = await client.submit(use("refund", ref="b46"), say("refunded"))
    wait = await client.open_wait(run["id"])
    model = world.gate("llm:0")
    body = {"agent": "desk", "input": script(say("held"))}
    held = asyncio.ensure_future(client.post_run(body, prefer="wait=30"))
    await model.reached()
    assert end_listeners(troubled.place) >= 1
    began = time.monotonic()
    await client.allow(wait["id"])
    await client.succeeded(run["id"])
    model.open()
    assert (await held).json()["status"] == "succeeded"
    assert time.monotonic() - began <= in_time(BACK_OFF_SECONDS)


@pytest.mark.case("B40")
@pytest.mark.timeout(180)
async def test_a_restart_in_the_midst_of_a_takeover_strands_no_run(
    troubled: Troubled, world: World, client: Client, deployment: Deployment
) -> None:
    gate = world.gate("pay:after", span=TAKEN)
    refs = [f"b40-{n}" for n in range(TAKEN)]
    runs = [await client.submit(use("pay_idem", ref=ref), say("paid")) for ref in refs]
    await gate.reached(holding=TAKEN)
    dead = (await client.run(runs[0]["id"]))["worker"]
    deployment.kill9()
    deployment.launch_worker()
    await eventually(lambda: left_of(troubled, dead, TAKEN - 10), "a takeover began", 30)
    troubled.place.server.stop("immediate")
    troubled.place.server.start()
    await asyncio.gather(*(client.succeeded(run["id"], within=60) for run in runs))
    assert [len(world.payments.rows_for(ref)) for ref in refs] == [1] * TAKEN


async def left_of(troubled: Troubled, worker: str, at_most: int) -> bool:
    """Whether so few legs are still a dead worker's."""
    return len(legs_of(troubled.place.url, worker)) <= at_most
