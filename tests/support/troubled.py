"""A service over a Postgres server of its own, for the time of a module."""

import os
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from app.llm.scripted import Scripted
from tests.support.database import Cluster
from tests.support.deployment import Deployment
from tests.support.server import debian_programs, embedded_programs, open_server
from tests.support.trouble import HOST, Place
from tests.support.world import World

RESOLVER = Path(__file__).parent / "resolver"
GRACE_SECONDS = 2


@dataclass(frozen=True)
class Troubled:
    """A service over a server of its own."""

    name: str
    deployment: Deployment
    place: Place


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
        directory.mkdir(exist_ok=True)
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
        return Troubled(f"{kind}-{link}", deployment, place)

    def close(self) -> None:
        self._stack.close()


def _environment(place: Place, link: str) -> dict[str, str]:
    """Over TCP the service knows its database by a name."""
    settings = {"PERDURE_GRACE_SECONDS": str(GRACE_SECONDS)}
    if link == "socket":
        return settings
    database = place.url.rpartition("/")[2]
    return settings | {
        "PERDURE_DATABASE_URL": place.server.url("tcp", HOST, database),
        "PERDURE_TEST_HOSTS": str(place.hosts),
        "PYTHONPATH": os.pathsep.join([str(RESOLVER), os.environ.get("PYTHONPATH", "")]),
    }
