"""The servers that the suite can run on, each from its start to a migrated database."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import psycopg
import pytest

from tests.support.containers import in_container, is_there
from tests.support.database import open_cluster
from tests.support.server import debian_programs, open_server


@contextmanager
def on_debian() -> Iterator[str]:
    """PostgreSQL 15 of Debian's package, over TCP."""
    programs = debian_programs()
    if programs is None:
        assert os.environ.get("CI") != "true", "PostgreSQL 15 is not installed"
        pytest.skip("PostgreSQL 15 is not installed here: apt-get install postgresql-15")
    with open_server(programs) as server:
        yield server.url("tcp")


@contextmanager
def in_docker() -> Iterator[str]:
    if not is_there():
        pytest.skip("there is no Docker engine here")
    with in_container() as url:
        yield url


@pytest.mark.parametrize("server", [on_debian, in_docker], ids=["debian", "docker"])
def test_the_suite_runs_on_a_server_given_by_url(
    server: Callable[[], AbstractContextManager[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    with server() as url:
        monkeypatch.setenv("PERDURE_TEST_DATABASE_URL", url)
        with open_cluster() as cluster:
            made = cluster.clone()
            with psycopg.connect(made) as connection:
                assert connection.execute("select count(*) from perdure.runs").fetchone() == (0,)
            cluster.drop(made)
