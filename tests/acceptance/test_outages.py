"""Trouble with the database: every run ends well without a hand, soon after it is over."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from app.llm.scripted import Scripted
from tests.support.client import Client
from tests.support.database import Cluster
from tests.support.deployment import Deployment
from tests.support.inspection import notes
from tests.support.polling import in_time
from tests.support.sampling import FULL
from tests.support.scripts import say, use
from tests.support.server import debian_programs, embedded_programs, open_server
from tests.support.trouble import HOST, TROUBLES, Place
from tests.support.world import World

# From the database's return to the next step of every run.
BACK_OFF_SECONDS = 5.0
RESOLVER = Path(__file__).parents[1] / "support" / "resolver"
PLACES = [("embedded", "socket"), ("debian", "tcp")]
SAMPLE = {
    "socket": [("restart", 0), ("outage", 3), ("crowd", 2)],
    "tcp": [("outage", 3), ("dns", 3), ("read_only", 3), ("disk_full", 12)],
}
if FULL:
    PLACES = [(server, link) for server in ("embedded", "debian") for link in ("socket", "tcp")]
    LONG = [("outage", 10), ("outage", 60), ("crowd", 10), ("read_only", 20), ("disk_full", 20)]
    SAMPLE = {"socket": [("restart", 0), *LONG], "tcp": [("restart", 0), *LONG, ("dns", 20)]}


@dataclass(frozen=True)
class Troubled:
    """A service over a server of its own."""

    deployment: Deployment
    place: Place


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def services(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator["Services"]:
    services = Services(tmp_path_factory.mktemp("outages"))
    yield services
    services.close()


class Services:
    """One service for each kind of server and way to it, started when it is first needed."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._made: dict[tuple[str, str], Troubled] = {}
        self._stack = ExitStack()

    async def get(self, server: str, link: str) -> Troubled:
        if (server, link) not in self._made:
            self._made[server, link] = await self._make(server, link)
        return self._made[server, link]

    async def _make(self, kind: str, link: str) -> Troubled:
        directory = self._directory / f"{kind}-{link}"
        directory.mkdir()
        programs = debian_programs() if kind == "debian" else embedded_programs(directory)
        if programs is None:
            assert os.environ.get("CI") != "true", "PostgreSQL 15 is not installed"
            pytest.skip("PostgreSQL 15 is not installed here: apt-get install postgresql-15")
        server = self._stack.enter_context(open_server(programs))
        place = Place(server, Cluster(server.url(link)).clone(), directory / "hosts")
        place.resolves()
        world = World(Scripted())
        world.start()
        self._stack.callback(world.stop)
        deployment = Deployment(place.url, world, directory, _environment(place, link))
        self._stack.callback(deployment.kill_all)
        await deployment.start()
        return Troubled(deployment, place)

    def close(self) -> None:
        self._stack.close()


def _environment(place: Place, link: str) -> dict[str, str]:
    """Over TCP the service knows its database by a name."""
    if link == "socket":
        return {}
    database = place.url.rpartition("/")[2]
    return {
        "PERDURE_DATABASE_URL": place.server.url("tcp", HOST, database),
        "PERDURE_TEST_HOSTS": str(place.hosts),
        "PYTHONPATH": os.pathsep.join([str(RESOLVER), os.environ.get("PYTHONPATH", "")]),
    }


CASES = [
    (server, link, trouble, seconds) for server, link in PLACES for trouble, seconds in SAMPLE[link]
]


@pytest.fixture(params=CASES, ids=lambda case: "-".join(map(str, case)))
def case(request: pytest.FixtureRequest) -> Iterator[tuple[str, str, str, int]]:
    return request.param


@pytest_asyncio.fixture
async def troubled(services: Services, case: tuple[str, str, str, int]) -> Troubled:
    return await services.get(case[0], case[1])


@pytest.fixture
def deployment(troubled: Troubled) -> Deployment:
    return troubled.deployment


@pytest.mark.timeout(180)
async def test_runs_of_every_policy_go_on_when_the_database_is_back(
    troubled: Troubled,
    world: World,
    client: Client,
    case: tuple[str, str, str, int],
    record_property: Callable[[str, object], None],
) -> None:
    _, _, trouble, seconds = case
    mark = "-".join(map(str, case))
    runs = await begin(client, world, mark)
    with TROUBLES[trouble](troubled.place):
        world.gates.open_all()
        await asyncio.sleep(seconds)
    back = time.monotonic()
    for name, run in runs.items():
        ended = await client.succeeded(run, within=60)
        assert ended["usage"]["repaid_model_calls"] == 0, name
    assert_nothing_was_repeated(world, troubled, mark, runs)
    late = {name: last_request(world, f"<{mark} {name}>") - back for name in runs}
    record_property("seconds", f"{mark}: the next step of each run after {told(late)}")
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
    for name in runs:
        assert world.model.steps(f"<{mark} {name}>") == [0, 1], name


def last_request(world: World, mark: str) -> float:
    return world.model.about(mark)[-1].arrived_at


def told(late: dict[str, float]) -> str:
    return ", ".join(f"{seconds:.1f} s ({name})" for name, seconds in late.items())
